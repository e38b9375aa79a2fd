/* Applies received frames to the waiting tasks, the current one, and the connection. */
#include "control.h"
#include "worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(const struct wire_frame *frame)
{
    struct task *task = task_of(frame);
    if (!task) {
        fputs("stoker-php: no memory for a task\n", stderr);
        exit(1);
    }
    *worker.last = task;
    worker.last = &task->next;
}

static void cancel(uint32_t id)
{
    for (struct task *task = worker.first; task; task = task->next)
        if (task->id == id) {
            task->is_cancelled = true;
            return;
        }
    if (worker.current && worker.current->id == id)
        worker.is_cancelled = true;
}

/* Reads the one field of WELCOME that matters here. The server writes no other field with this name. */
static void welcome(const struct wire_frame *frame)
{
    char *text = strndup(frame->body, frame->body_len);
    const char *found = text ? strstr(text, "\"max_frame\":") : NULL;
    unsigned long max = found ? strtoul(found + strlen("\"max_frame\":"), NULL, 10) : 0;
    if (max > 0 && max <= WIRE_MAX)
        worker.max_frame = max;
    free(text);
}

static void take(const struct wire_frame *frame)
{
    struct buffer pong = {0};
    switch (frame->type) {
    case WIRE_REQ:
        add(frame);
        break;
    case WIRE_CANCEL:
        cancel(frame->id);
        break;
    case WIRE_CREDIT:
        if (worker.current && worker.current->id == frame->id)
            worker.credit += frame->ttl;
        break;
    case WIRE_PING:
        wire_head(&pong, &(struct wire_frame){.type = WIRE_PONG, .id = frame->id});
        worker_write((struct iovec[]){{pong.bytes, pong.len}}, 1);
        buffer_free(&pong);
        break;
    case WIRE_GOAWAY:
        worker.is_draining = true;
        break;
    case WIRE_WELCOME:
        welcome(frame);
        break;
    case WIRE_RES: /* With id 0. */
        fprintf(stderr, "stoker-php: the server rejected this worker: %.*s\n", (int)frame->body_len, frame->body);
        exit(1);
    default:
        break;
    }
}

size_t control_take_all(const char *bytes, size_t len)
{
    size_t used = 0;
    while (used < len) {
        int64_t whole = wire_length(bytes + used, len - used);
        struct wire_frame frame;
        if (whole == 0 || (whole > 0 && (size_t)whole > len - used))
            break;
        if (whole < 0 || !wire_parse(bytes + used, (size_t)whole, &frame)) {
            fputs("stoker-php: the server sent a malformed frame\n", stderr);
            worker.is_cut_off = true;
            return len;
        }
        take(&frame);
        used += (size_t)whole;
    }
    return used;
}
