/* How a script failed. */
#ifndef STOKER_FAILURE_H
#define STOKER_FAILURE_H

#include "answer.h"

/* Begins to note errors. Called once, after PHP has started. */
void failure_watch(void);
/* Forgets the errors of the last task. */
void failure_reset(void);
/* How the script has ended. Valid until failure_reset(). */
struct verdict failure_verdict(bool is_job);

#endif
