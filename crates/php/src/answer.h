/* The answer to the current task, while the script writes it. */
#ifndef STOKER_ANSWER_H
#define STOKER_ANSWER_H

#include "task.h"

/* How the script ended. */
struct verdict {
    uint8_t status;
    /* The description of a failure. Class and place may be NULL. */
    const char *text, *class, *place;
};

struct answer {
    /* The response's head, and the part of its body, or of the result, that has not been sent. */
    struct buffer head, body;
    /* Whether the head is complete. Only responses have one. */
    bool has_head;
    /* What is wrong with the answer, for whoever sent the request; NULL if it can be sent. */
    const char *invalid;
    /* The response has no body, whatever the script writes. */
    bool has_no_body;
    /* The length of the body that the script has announced; -1 if it has not. */
    int64_t length;
    /* The first part was sent. */
    bool has_begun;
    /* The script gave a result of its own by stoker_answer(), so its output goes to the log. */
    bool is_given;
    /* The last frame was sent, or nobody waits for it. */
    bool is_done;
};

extern struct answer answer;

void answer_begin(const struct task *task);
/* Adds output of the script. Returns false if nobody waits for the answer any more. */
bool answer_write(const char *bytes, size_t len);
/* Sends the output so far, if the caller accepts an answer in parts. Returns false if nobody waits for it any more. */
bool answer_flush(void);
/* Makes `bytes` the result of the current call or job. Returns false if the answer has begun. */
bool answer_give(const char *bytes, size_t len);
/* Sends the answer, or its rest. */
void answer_end(const struct verdict *verdict);

#endif
