/* A task, decoded from its REQ frame. */
#include "task.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct task *task_of(const struct wire_frame *frame)
{
    size_t len = sizeof(struct task) + frame->name_len + 1 + frame->meta_len + frame->body_len + 1;
    struct task *task = malloc(len);
    if (!task)
        return NULL;
    struct wire_entry entry;
    char *name = (char *)(task + 1), *meta = name + frame->name_len + 1, *body = meta + frame->meta_len;
    *task = (struct task){
        .id = frame->id, .time_left = frame->ttl, .flags = frame->flags, .codec = frame->code, .attempt = frame->attempt,
        .is_job = wire_find(frame->meta, frame->meta_len, WIRE_JOB_ID, &entry), .is_http = frame->code == WIRE_HTTP,
        .name = name, .meta = meta, .meta_len = frame->meta_len, .body = body, .body_len = frame->body_len,
    };
    memcpy(name, frame->name, frame->name_len);
    name[frame->name_len] = 0;
    memcpy(meta, frame->meta, frame->meta_len);
    memcpy(body, frame->body, frame->body_len);
    body[frame->body_len] = 0;
    return task;
}

char *task_text(const struct task *task, uint8_t key)
{
    struct wire_entry entry;
    if (!wire_find(task->meta, task->meta_len, key, &entry) || memchr(entry.value, 0, entry.len))
        return NULL;
    return strndup(entry.value, entry.len);
}

uint8_t task_unknown_key(const struct task *task)
{
    struct wire_entry entry;
    for (size_t at = 0; task->flags & WIRE_CRITICAL && wire_next(task->meta, task->meta_len, &at, &entry);)
        if (entry.key > WIRE_LAST_KEY && entry.key < WIRE_FIRST_OF_USER)
            return entry.key;
    return 0;
}

void task_label(const struct task *task, char label[37])
{
    struct wire_entry entry;
    label[0] = 0;
    if (!wire_find(task->meta, task->meta_len, WIRE_JOB_ID, &entry) || entry.len != 16)
        return;
    for (size_t at = 0; at < 16; at++) {
        bool has_hyphen = at == 4 || at == 6 || at == 8 || at == 10;
        label += sprintf(label, has_hyphen ? "-%02x" : "%02x", (unsigned char)entry.value[at]);
    }
}
