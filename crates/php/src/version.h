/* The version of Stoker; the Makefile sets it. */
#ifndef STOKER_VERSION
#define STOKER_VERSION "0"
#endif
