/* The functions and constants that this host adds to PHP. */
#ifndef STOKER_FUNCTIONS_H
#define STOKER_FUNCTIONS_H

#include <php.h>

/* The extension with the functions. */
zend_module_entry *functions_module(void);
/* Defines STDIN, STDOUT and STDERR for the current task. */
void functions_define_streams(void);

#endif
