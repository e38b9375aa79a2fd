/* The server API through which PHP talks to its host. */
#ifndef STOKER_SAPI_H
#define STOKER_SAPI_H

#include <SAPI.h>
#include <stdbool.h>

extern sapi_module_struct sapi_of_stoker;

/* Whether this process was forked by a task, and must not answer for it. */
extern bool sapi_is_forked;

/* Imports the environment for the $_SERVER of all later tasks of this process, whose engine request stays open. */
void sapi_keep_environment(void);

#endif
