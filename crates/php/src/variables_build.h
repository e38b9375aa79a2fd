/* Where the variables of a task are put while they are built. */
#ifndef STOKER_VARIABLES_BUILD_H
#define STOKER_VARIABLES_BUILD_H

#include "message.h"
#include "task.h"
#include "variables.h"

/* Room for a string of `len` bytes, which lives as long as the variables. */
char *variables_room(size_t len);
/* A copy of `len` bytes, with a final NUL. */
const char *variables_copy(const char *bytes, size_t len);
/* Adds a variable. The strings must live as long as the task. */
void variables_set(const char *name, const char *value, size_t len);
void variables_set_text(const char *name, const char *value);
/* A variable that was added; NULL if there is none of this name. */
struct variable *variables_get(const char *name, size_t len);

/* Adds the variables of the current request. */
void variables_of_request(const struct message *message);
/* How much memory variables_of_request() needs for strings, in bytes, or more. */
size_t variables_needed(const struct message *message);
/* Adds the variables of a call or job. */
void variables_of_task(const struct task *task);
/* How much memory variables_of_task() needs for strings, in bytes, or more. */
size_t variables_needed_for_task(const struct task *task);

#endif
