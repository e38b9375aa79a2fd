/* Huge pages for the code of PHP. */
#ifndef STOKER_CODE_PAGES_H
#define STOKER_CODE_PAGES_H

#include <stdbool.h>

/* Moves the code of the library that contains this address into huge pages, as far as possible. */
void code_pages_enlarge(const void *inside);

#endif
