/* Time. */
#ifndef STOKER_CLOCK_H
#define STOKER_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds since any fixed moment. */
static inline uint64_t clock_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

#endif
