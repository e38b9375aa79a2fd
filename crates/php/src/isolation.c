/* State of the process that PHP does not reset between tasks. */
#include "isolation.h"
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int home = -1;
static sigset_t signals;
static mode_t mask;

void isolation_begin(void)
{
    home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    sigprocmask(SIG_SETMASK, NULL, &signals);
    mask = umask(0);
    umask(mask);
}

void isolation_reset(void)
{
    if (home >= 0 && fchdir(home) != 0) {
        close(home);
        home = -1;
    }
    sigprocmask(SIG_SETMASK, &signals, NULL);
    umask(mask);
    alarm(0);
    /* Processes that the task has started and not waited for. */
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}
