/* Runs a task as a request of the engine. */
#ifndef STOKER_RUN_H
#define STOKER_RUN_H

#include "task.h"

/* `script` runs calls and jobs; NULL if there is none. `count` and `words` are its $argv. Called once. */
void run_begin(char *script, int count, char **words);
/* The script for calls and jobs, which is also the one that a zygote boots. */
char *run_script(void);
/* Passes to PHP what it must know about the current task before its request begins. */
void run_describe(void);
/* Boots the script in a request without a task, which stays open. */
void run_boot(void);
/* Runs a task and answers it. */
void run_task(struct task *task);

#endif
