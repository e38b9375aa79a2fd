/* The functions of the application that run around forks. */
#ifndef STOKER_HOOKS_H
#define STOKER_HOOKS_H

#include <php.h>

PHP_FUNCTION(stoker_before_fork);
PHP_FUNCTION(stoker_after_fork);

/* Call the functions that were passed, in their order. Return false if one threw, or called exit(). */
bool hooks_before_fork(void);
bool hooks_after_fork(void);

#endif
