/* The command line of stoker-php. */
#ifndef STOKER_OPTIONS_H
#define STOKER_OPTIONS_H

#include "buffer.h"
#include <stdbool.h>

struct options {
    /* Settings of PHP, one a line, and a final NUL. */
    struct buffer settings;
    /* The path of php.ini or of its directory; NULL for the usual one. */
    char *ini;
    bool has_no_ini;
    /* The script and its arguments; the script's path is absolute. None if the pool answers HTTP requests only. */
    int count;
    char **words;
};

/* Reads the command line. Ends the process with a message if it is invalid. */
void options_read(struct options *options, int count, char **words);

#endif
