/* The worker's side of its connection with the server: reading frames, the tasks that wait, and writing. */
#include "worker.h"
#include "control.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE (64 << 10)

struct worker worker = {.fd = -1, .max_frame = WIRE_MAX, .tasks_left = UINT64_MAX};
static struct buffer input, output;

void worker_open(int fd, const char *hello)
{
    worker.fd = fd;
    worker.last = &worker.first;
    char *text = NULL;
    int len = asprintf(&text, "{%s}", hello);
    if (len >= 0) {
        wire_head(&output, &(struct wire_frame){.type = WIRE_HELLO, .body_len = (size_t)len});
        buffer_add(&output, text, (size_t)len);
        worker_write((struct iovec[]){{output.bytes, output.len}}, 1);
        buffer_reset(&output);
    }
    free(text);
}

/* Answers a task that can't be run. Returns false if it can. */
static bool reject(const struct task *task)
{
    uint8_t unknown = task_unknown_key(task);
    char text[80];
    if (!task->is_cancelled && !unknown)
        return false;
    snprintf(text, sizeof text, "critical frame with unknown metadata key %d", unknown);
    worker_reject(task, task->is_cancelled ? WIRE_CANCELLED : WIRE_INVALID_ARGUMENT, task->is_cancelled ? "cancelled before it started" : text);
    return true;
}

struct task *worker_next(void)
{
    while (!worker.is_cut_off && worker.tasks_left > 0) {
        struct task *task = worker.first;
        if (!task) {
            if (worker.is_draining)
                return NULL;
            worker_receive(-1);
            continue;
        }
        worker.first = task->next;
        if (!worker.first)
            worker.last = &worker.first;
        worker.tasks_left -= worker.tasks_left < UINT64_MAX;
        if (!reject(task))
            return task;
        free(task);
    }
    return NULL;
}

void worker_leave(void)
{
    worker_frame(&(struct wire_frame){.type = WIRE_GOAWAY}, NULL, NULL);
}

void worker_receive(int timeout)
{
    if (worker.fd < 0 || worker.is_cut_off)
        return;
    if (timeout >= 0) {
        struct pollfd ready = {worker.fd, POLLIN, 0};
        if (poll(&ready, 1, timeout) <= 0)
            return;
    }
    buffer_reserve(&input, READ_SIZE);
    ssize_t count = recv(worker.fd, input.bytes + input.len, input.size - input.len, 0);
    if (count < 0 && errno == EAGAIN) {
        struct pollfd ready = {worker.fd, POLLIN, 0};
        if (poll(&ready, 1, timeout) > 0)
            count = recv(worker.fd, input.bytes + input.len, input.size - input.len, 0);
    }
    if (count <= 0) {
        worker.is_cut_off |= count == 0 || (errno != EINTR && errno != EAGAIN);
        return;
    }
    input.len += (size_t)count;
    size_t used = control_take_all(input.bytes, input.len);
    buffer_skip(&input, used);
    if (input.len == 0)
        buffer_reset(&input);
}

void worker_write(struct iovec *pieces, int count)
{
    while (worker.fd >= 0 && !worker.is_cut_off) {
        while (count > 0 && pieces->iov_len == 0)
            pieces++, count--;
        if (count == 0)
            return;
        ssize_t sent = sendmsg(worker.fd, &(struct msghdr){.msg_iov = pieces, .msg_iovlen = (size_t)count}, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){worker.fd, POLLOUT, 0}, 1, -1);
        } else if (sent < 0 && errno != EINTR) {
            worker.is_cut_off = true;
        }
        for (; sent > 0; pieces++, count--) {
            size_t done = pieces->iov_len < (size_t)sent ? pieces->iov_len : (size_t)sent;
            pieces->iov_base = (char *)pieces->iov_base + done;
            pieces->iov_len -= done;
            sent -= (ssize_t)done;
            if (pieces->iov_len > 0)
                break;
        }
    }
}

void worker_frame(const struct wire_frame *frame, const struct buffer *head, const struct buffer *body)
{
    static const struct buffer none;
    head = head ? head : &none;
    body = body ? body : &none;
    struct wire_frame whole = *frame;
    whole.body_len = head->len + body->len;
    wire_head(&output, &whole);
    struct iovec pieces[] = {{output.bytes, output.len}, {head->bytes, head->len}, {body->bytes, body->len}};
    worker_write(pieces, 3);
    buffer_reset(&output);
}

void worker_reject(const struct task *task, uint8_t status, const char *text)
{
    struct buffer body = {.bytes = (char *)text, .len = strlen(text)};
    worker_frame(&(struct wire_frame){.type = WIRE_RES, .code = status, .id = task->id}, &body, NULL);
}

void worker_event(uint8_t kind, uint8_t prio, const char *bytes, size_t len)
{
    struct buffer body = {.bytes = (char *)bytes, .len = len};
    uint32_t id = worker.current ? worker.current->id : 0;
    worker_frame(&(struct wire_frame){.type = WIRE_EVENT, .code = kind, .prio = prio, .id = id}, &body, NULL);
}
