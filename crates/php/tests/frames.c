/* Reads one frame a line, in hexadecimal digits, and prints what it has read, or "invalid". Then it prints the frame that it would
 * write itself, and the key that makes it reject the frame as CRITICAL, or 0. */
#include "task.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(const char *bytes, size_t len)
{
    for (size_t at = 0; at < len; at++)
        printf("%02x", (unsigned char)bytes[at]);
}

static void check(const char *bytes, size_t len)
{
    struct wire_frame frame;
    int64_t whole = 0;
    /* A stream may end anywhere in a frame. */
    for (size_t known = 0; known <= len && whole == 0; known++)
        whole = wire_length(bytes, known);
    if (whole < 0 || (size_t)whole != len || !wire_parse(bytes, len, &frame)) {
        puts("invalid");
        return;
    }
    struct buffer meta = {0}, again = {0};
    struct wire_entry entry;
    printf("%d %d %d %d %u %u %d %.*s [", frame.type, frame.flags, frame.code, frame.prio, frame.id, frame.ttl, frame.attempt,
           frame.name_len, frame.name);
    for (size_t at = 0; wire_next(frame.meta, frame.meta_len, &at, &entry);) {
        printf("%d:", entry.key);
        print(entry.value, entry.len);
        printf(",");
        wire_entry(&meta, entry.key, entry.value, entry.len);
    }
    printf("] ");
    print(frame.body, frame.body_len);
    struct wire_frame own = frame;
    own.meta = meta.bytes;
    own.meta_len = (uint16_t)meta.len;
    wire_head(&again, &own);
    buffer_add(&again, frame.body, frame.body_len);
    printf(" ");
    print(again.bytes, again.len);
    struct task *task = task_of(&frame);
    printf(" %d\n", task ? task_unknown_key(task) : -1);
    free(task);
    buffer_free(&meta);
    buffer_free(&again);
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    while ((len = getline(&line, &size, stdin)) > 0) {
        char *bytes = malloc((size_t)len + 1);
        size_t count = 0;
        unsigned int byte;
        for (char *at = line; sscanf(at, "%2x", &byte) == 1; at += 2)
            bytes[count++] = (char)byte;
        check(bytes, count);
        free(bytes);
    }
    free(line);
    return 0;
}
