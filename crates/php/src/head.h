/* Writes the head of a response. */
#ifndef STOKER_HEAD_H
#define STOKER_HEAD_H

#include <SAPI.h>

/* Writes the status line and the fields into the answer, or notes why they are invalid. */
void head_write(sapi_headers_struct *headers);

#endif
