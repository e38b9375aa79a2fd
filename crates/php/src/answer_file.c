/* A file for the body of a large answer, which the gateway sends and removes. */
#include "answer_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static int file = -1;
static char *path;

bool answer_file_is_open(void)
{
    return file >= 0;
}

bool answer_file_open(const struct task *task)
{
    unsigned char name[12];
    char *directory = task_text(task, WIRE_ANSWER_DIRECTORY);
    if (!directory || getrandom(name, sizeof name, 0) != sizeof name) {
        free(directory);
        return false;
    }
    size_t len = strlen(directory);
    path = malloc(len + sizeof "/answer-" + 2 * sizeof name);
    if (path) {
        char *end = path + sprintf(path, "%s/answer-", directory);
        for (size_t at = 0; at < sizeof name; at++)
            end += sprintf(end, "%02x", name[at]);
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    free(directory);
    if (file < 0) {
        free(path);
        path = NULL;
    }
    return file >= 0;
}

bool answer_file_write(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t count = write(file, bytes, len);
        if (count < 0 && errno != EINTR)
            return false;
        if (count > 0) {
            bytes += count;
            len -= (size_t)count;
        }
    }
    return true;
}

void answer_file_finish(struct buffer *head)
{
    if (file < 0)
        return;
    head->len -= 2; /* The empty line. */
    buffer_format(head, "x-sendfile: %s\r\n\r\n", path);
    free(path);
    path = NULL;
}

void answer_file_drop(void)
{
    if (file >= 0)
        close(file);
    file = -1;
    if (path)
        unlink(path);
    free(path);
    path = NULL;
}
