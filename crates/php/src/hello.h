/* What this process offers to the server. */
#ifndef STOKER_HELLO_H
#define STOKER_HELLO_H

#include <stdbool.h>

/* Begins to use the socket of the server as a worker. `has_script`: whether calls and jobs can be run. */
void hello_send(int fd, bool has_script);
/* The names of the sites whose requests the pool answers, separated by commas; "" if there are none. */
const char *hello_sites(void);

#endif
