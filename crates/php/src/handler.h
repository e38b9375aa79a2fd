/* The handler that a script registers by stoker_handle(). */
#ifndef STOKER_HANDLER_H
#define STOKER_HANDLER_H

#include <php.h>

PHP_FUNCTION(stoker_handle);
PHP_FUNCTION(stoker_reboot);

/* Runs the script of the pool as a zygote; it must call stoker_handle(). Returns the exit code of the process. */
int handler_boot(void);

#endif
