// Preloaded into a process. Moves the wall clock, and no other clock, by the number of seconds in the file
// CLOCK_OFFSET.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, time);
    const char *path = getenv("CLOCK_OFFSET");
    if (result == 0 && path && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        char text[32] = {0};
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) time->tv_sec += atol(text);
            close(file);
        }
    }
    return result;
}
