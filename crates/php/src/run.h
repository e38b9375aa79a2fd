/* Runs a task as a request of the engine. */
#ifndef STOKER_RUN_H
#define STOKER_RUN_H

#include "task.h"

/* `script` runs calls and jobs; NULL if there is none. `count` and `words` are its $argv. Called once. */
void run_begin(char *script, int count, char **words);
/* Runs a task and answers it. */
void run_task(struct task *task);

#endif
