/* What a script learns about its task. */
#ifndef STOKER_REQUEST_H
#define STOKER_REQUEST_H

#include "body.h"
#include "message.h"
#include "task.h"

struct request {
    struct task *task;
    /* The request, if the task is one. */
    struct message message;
    struct body body;
    /* The script that runs. */
    char *script;
};

/* The current task's. */
extern struct request request;

/* Reads the task. `script` is run for calls and jobs; NULL if there is none. `runs_all`: it is run for requests, too, instead of the front
 * controller of their site. Returns NULL, or what is invalid. */
const char *request_begin(struct task *task, const char *script, bool runs_all);
void request_end(void);

#endif
