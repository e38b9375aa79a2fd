/* Applies received frames. */
#ifndef STOKER_CONTROL_H
#define STOKER_CONTROL_H

#include <stddef.h>

/* Handles all complete frames of `bytes`, and returns how many bytes they have. A malformed frame ends the connection. */
size_t control_take_all(const char *bytes, size_t len);

#endif
