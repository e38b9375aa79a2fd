/* The body of a task: bytes of its frame, or a file. */
#include "body.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char error[4500];

void body_of_task(struct body *body, const struct task *task)
{
    *body = (struct body){.bytes = task->body, .file = -1, .len = task->body_len};
}

/* Opens the file and sets the length. Returns why that is not possible. */
static const char *open_file(struct body *body, const char *path)
{
    struct stat info;
    body->file = open(path, O_RDONLY | O_CLOEXEC);
    if (body->file < 0 || fstat(body->file, &info) != 0) {
        snprintf(error, sizeof error, "the file with its body (%.4000s) can't be read: %s", path, strerror(errno));
        return error;
    }
    body->len = (size_t)info.st_size;
    return NULL;
}

const char *body_of_message(struct body *body, const struct task *task, const struct message *message)
{
    *body = (struct body){.bytes = message->body, .file = -1, .len = message->body_len};
    char *path = task_text(task, WIRE_BODY_FILE);
    const char *failed = path ? open_file(body, path) : NULL;
    int64_t stated = message->content_length < 0 ? 0 : message->content_length;
    if (!failed && (stated != (int64_t)body->len || (path && message->body_len > 0))) {
        snprintf(error, sizeof error, "its content-length does not match its body (%.4000s%s%zu bytes)", path ? path : "",
                 path ? ", " : "", body->len);
        failed = error;
    }
    free(path);
    return failed;
}

size_t body_read(struct body *body, char *to, size_t len)
{
    size_t left = body->len - body->used;
    len = len < left ? len : left;
    if (body->file < 0) {
        memcpy(to, body->bytes + body->used, len);
    } else {
        ssize_t count = pread(body->file, to, len, (off_t)body->used);
        len = count > 0 ? (size_t)count : 0;
    }
    body->used += len;
    return len;
}

void body_close(struct body *body)
{
    if (body->file >= 0)
        close(body->file);
    body->file = -1;
}
