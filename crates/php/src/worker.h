/* The worker's side of its connection with the server. */
#ifndef STOKER_WORKER_H
#define STOKER_WORKER_H

#include "task.h"
#include <sys/types.h>
#include <sys/uio.h>

struct worker {
    /* The socket; -1 before it is open, and in processes that a task has forked. */
    int fd;
    /* Received tasks that have not started, in the order of their arrival. */
    struct task *first, **last;
    /* The task that runs; NULL before it begins and after it was answered. */
    struct task *current;
    /* A CANCEL for the current task has come. */
    bool is_cancelled;
    /* The current task's script was notified that it is cancelled: what it does now, such as its shutdown functions, is not interrupted. */
    bool is_ending;
    /* The server sent GOAWAY: the received tasks are finished, then the process exits. */
    bool is_draining;
    /* The current task is the last one, because the application shall boot again. */
    bool is_leaving;
    /* The connection has ended. */
    bool is_cut_off;
    /* How many bytes of the current task's answer may be sent in parts. */
    uint64_t credit;
    /* The largest value of a frame's length field that the server accepts. */
    size_t max_frame;
    /* How many more tasks this process takes. */
    uint64_t tasks_left;
};

extern struct worker worker;

/* Begins to use the socket, and sends HELLO with these fields: JSON without the braces. */
void worker_open(int fd, const char *hello);
/* Waits for the next task. Those that were cancelled or can't be run are answered here. Returns NULL when this process should exit. The
 * task must be answered and freed before the next call. */
struct task *worker_next(void);
/* Announces that this process takes no more tasks. */
void worker_leave(void);
/* Reads what has come, after waiting at most `timeout` milliseconds (-1 = no limit) for it or for a signal. */
void worker_receive(int timeout);
/* Writes frames. If the connection has ended, they are dropped. */
void worker_write(struct iovec *pieces, int count);
/* Writes a frame with the body in two pieces, either of which may be NULL. */
void worker_frame(const struct wire_frame *frame, const struct buffer *head, const struct buffer *body);
/* Answers a task with a message. */
void worker_reject(const struct task *task, uint8_t status, const char *text);
/* Sends an event about the current task. */
void worker_event(uint8_t kind, uint8_t prio, const char *body, size_t len);

#endif
