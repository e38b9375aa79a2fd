/* A task, decoded from its REQ frame. */
#ifndef STOKER_TASK_H
#define STOKER_TASK_H

#include "wire.h"

struct task {
    struct task *next;
    uint32_t id;
    uint8_t flags, codec, attempt;
    bool is_job, is_http, is_cancelled;
    /* The milliseconds until a call's deadline; 0 if there is none. */
    uint32_t time_left;
    /* The name of the job's queue, or of the called method. */
    char *name;
    const char *meta;
    size_t meta_len;
    /* The payload, followed by a NUL. The parser of HTTP requests writes into it. */
    char *body;
    size_t body_len;
};

/* Copies a task out of its frame. It is freed with free(). */
struct task *task_of(const struct wire_frame *frame);
/* The text under a metadata key as a string that the caller frees; NULL if it is missing or contains a NUL. */
char *task_text(const struct task *task, uint8_t key);
/* The key of a CRITICAL task that is unknown here; 0 if there is none. */
uint8_t task_unknown_key(const struct task *task);
/* The id of a job as a UUID with hyphens; "" for a call. */
void task_label(const struct task *task, char label[37]);

#endif
