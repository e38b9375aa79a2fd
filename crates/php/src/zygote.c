/* The zygote of strategy = "snapshot": it has booted an application, and clones a worker for each request of Stoker:
 * docs/reference/protocol.md, section 13. */
#include "zygote.h"
#include "clock.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define VERSION 1
#define MAX_RECORD 4096
/* Workers that are requested within this time after another one are needed at once, in microseconds. */
#define HURRY 5000

enum { SPAWN = 1, READY = 1, SPAWNED = 2, FAILED = 4 };

/* A request for a worker. */
struct request_record {
    char bytes[MAX_RECORD + 1];
    size_t len;
    /* Its socket to the server, stdout, stderr. */
    int fds[3];
};

#define KEY_LEN 8

static int socket_fd = -1;
/* The zygote, also in its workers. Unlike its pid it can't come to denote another process. */
static int zygote_fd = -1;
static struct sigaction on_hangup_before;

bool zygote_is_requested(void)
{
    return getenv("STOKER_ZYGOTE") != NULL;
}

static void fail(const char *what)
{
    fprintf(stderr, "stoker-php: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void connect_to_stoker(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("STOKER_ZYGOTE");
    size_t len = strlen(name);
    socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (socket_fd < 0 || len > sizeof address.sun_path - 1)
        fail("no socket for the zygote");
    memcpy(address.sun_path + 1, name, len);
    if (connect(socket_fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) != 0)
        fail("cannot connect to Stoker as the zygote of this pool");
    unsetenv("STOKER_ZYGOTE");
}

static void report(const char *record, size_t len)
{
    if (send(socket_fd, record, len, MSG_NOSIGNAL) != (ssize_t)len)
        _exit(0); /* Stoker has ended. */
}

/* Waits for a request. */
static void receive(struct request_record *request)
{
    union {
        char bytes[CMSG_SPACE(sizeof request->fds)];
        struct cmsghdr align;
    } control;
    struct iovec piece = {request->bytes, MAX_RECORD};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t len;
    do {
        message.msg_controllen = sizeof control.bytes;
        len = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    } while (len < 0 && errno == EINTR);
    if (len <= 0)
        _exit(0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    bool has_all = header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof request->fds);
    if (!has_all || len < 1 + KEY_LEN || request->bytes[0] != SPAWN) {
        fputs("stoker-php: the zygote got an invalid record\n", stderr);
        _exit(1);
    }
    memcpy(request->fds, CMSG_DATA(header), sizeof request->fds);
    request->len = (size_t)len;
    request->bytes[len] = 0;
}

int zygote_clone(bool is_sibling)
{
    static int *thread_id;
    /* The C library keeps the id of its thread there, for raise() for example. */
    if (!thread_id)
        prctl(PR_GET_TID_ADDRESS, &thread_id);
    unsigned long flags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD | (is_sibling ? CLONE_PARENT : 0);
#ifdef __s390x__
    return (int)syscall(SYS_clone, NULL, flags, NULL, thread_id, 0);
#elif defined(__x86_64__)
    return (int)syscall(SYS_clone, flags, NULL, NULL, thread_id, 0);
#else
    return (int)syscall(SYS_clone, flags, NULL, NULL, 0, thread_id);
#endif
}

/* Makes this process the worker that was requested, and returns its socket. */
static int adopt(const struct request_record *request, pid_t parent)
{
    /* Stoker kills the process group with the worker. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    sigaction(SIGHUP, &on_hangup_before, NULL);
    close(socket_fd);
    socket_fd = -1;
    dup2(request->fds[1], STDOUT_FILENO);
    dup2(request->fds[2], STDERR_FILENO);
    close(request->fds[1]);
    close(request->fds[2]);
    const char *name = request->bytes + 1 + KEY_LEN, *cookie = name + strlen(name);
    setenv("STOKER_WORKER", name, 1);
    setenv("STOKER_COOKIE", cookie < request->bytes + request->len ? cookie + 1 : "", 1);
    return request->fds[0];
}

/* Clones a worker. Returns its socket in the worker, and -1 here. */
static int spawn(const struct request_record *request)
{
    char record[1 + KEY_LEN + 100];
    pid_t parent = getppid();
    int pid = zygote_clone(true);
    if (pid == 0)
        return adopt(request, parent);
    memcpy(record + 1, request->bytes + 1, KEY_LEN);
    size_t len = 1 + KEY_LEN;
    if (pid < 0) {
        record[0] = FAILED;
        len += (size_t)snprintf(record + len, sizeof record - len, "cannot clone: %s", strerror(errno));
    } else {
        record[0] = SPAWNED;
        for (int at = 0; at < 4; at++)
            record[len++] = (char)(pid >> 8 * at);
    }
    report(record, len);
    for (int at = 0; at < 3; at++)
        close(request->fds[at]);
    return -1;
}

/* A worker asks for a zygote that boots again. This one ends with its next attempt to receive, and Stoker starts another one. */
static void on_hangup(int signal)
{
    (void)signal;
    shutdown(socket_fd, SHUT_RD);
}

static void take_hangups(void)
{
    struct sigaction action = {.sa_handler = on_hangup};
    sigemptyset(&action.sa_mask);
    sigaction(SIGHUP, &action, &on_hangup_before);
    zygote_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
}

void zygote_reboot(void)
{
    if (zygote_fd >= 0)
        syscall(SYS_pidfd_send_signal, zygote_fd, SIGHUP, NULL, 0);
}

int zygote_serve(void (*prepare)(void))
{
    static struct request_record request;
    connect_to_stoker();
    take_hangups();
    report((char[]){READY, VERSION, 0}, 3);
    uint64_t last = 0;
    while (true) {
        receive(&request);
        uint64_t now = clock_now();
        bool is_idle = now - last > HURRY;
        last = now;
        int fd = spawn(&request);
        if (fd >= 0) {
            if (is_idle)
                prepare();
            return fd;
        }
    }
}
