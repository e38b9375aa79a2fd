/* The variables of a task: those of CGI (RFC 3875) for a request, and STOKER_… for calls and jobs. */
#ifndef STOKER_VARIABLES_H
#define STOKER_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

struct variable {
    const char *name, *value;
    size_t len;
};

/* All variables of the current task. */
const struct variable *variables_all(size_t *count);
/* The value of a variable of the current task, as a string; NULL if it has no such variable. */
const char *variables_find(const char *name, size_t len);
/* Whether a variable of the process's own environment must not be mistaken for one of the current task, or of any if there is none. */
bool variables_hide(const char *name);
/* The cookies of the current request, as one string; NULL if it has none. */
char *variables_cookies(void);
/* Forgets the variables of the current task. */
void variables_free(void);

#endif
