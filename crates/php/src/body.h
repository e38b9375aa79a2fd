/* The body of a task: bytes of its frame, or a file. */
#ifndef STOKER_BODY_H
#define STOKER_BODY_H

#include "message.h"
#include "task.h"

struct body {
    const char *bytes;
    /* The file; -1 if the body is in `bytes`. */
    int file;
    /* How many bytes there are in all, and how many of them were read. */
    size_t len, used;
};

/* The payload of a call or a job. */
void body_of_task(struct body *body, const struct task *task);
/* The body of a request. Returns NULL, or why it can't be read: a message that is valid until the next call. */
const char *body_of_message(struct body *body, const struct task *task, const struct message *message);
/* Reads on. Returns 0 at the end. */
size_t body_read(struct body *body, char *to, size_t len);
void body_close(struct body *body);

#endif
