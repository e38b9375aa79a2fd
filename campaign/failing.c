// Preloaded into a server. Makes disk operations on the server's store fail when a file shared with the campaign says
// so, and checks that data which a failed fsync may have lost is never treated as written. Other files and other
// processes are not affected.
//
//   FAILING_STORE    the store's path; its log and its journal belong to it
//   FAILING_CONTROL  a file with a `struct control`; it outlives the server, just as the disk's losses do
//
// After a failed fsync, Linux marks the pages that it could not write as clean, and a second fsync succeeds. So every
// page that was waiting for the failed sync must be written again before the file's next sync.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NONE, STORE, LOG, FOLDER };
enum { FDS = 4096, PAGE = 4096, PAGES = 1 << 17, FOREVER = UINT32_MAX };

struct control {
    uint32_t syncs, writes; // how many of a thousand calls fail
    uint32_t left;          // number of failures still to come; FOREVER: unlimited
    uint32_t stop_at;       // the server stops itself at this call; 0: at none
    uint32_t counting;      // calls are counted: at the campaign's request, or since the first failure
    uint32_t calls;
    uint32_t failed_syncs, failed_writes;
    uint32_t synced_again; // syncs after a failed one without writing the lost pages again; must stay 0
    uint64_t stopped_at;   // CLOCK_MONOTONIC, ns; 0: not yet
    struct pages {
        uint64_t number, born; // identify the file; an inode number alone may be reused
        uint8_t dirty[PAGES], lost[PAGES];
    } pages[2]; // of the store, and of its log
};

static struct control *control;
static char store[PATH_MAX], folder[PATH_MAX];
static unsigned char what[FDS];
static unsigned char owed[FDS]; // Linux reports a failed sync to each descriptor that was open at the time
static unsigned dice;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int (*real_open)(const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

static void resolve(void)
{
    if (real_fdatasync)
        return;
    real_open = dlsym(RTLD_NEXT, "open64");
    real_close = dlsym(RTLD_NEXT, "close");
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
}

__attribute__((constructor)) static void begin(void)
{
    resolve();
    const char *path = getenv("FAILING_STORE"), *shared = getenv("FAILING_CONTROL");
    if (!path || !shared)
        return;
    int fd = real_open(shared, O_RDWR | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        dprintf(2, "failing: %s: %s\n", shared, strerror(errno));
        abort();
    }
    real_close(fd);
    snprintf(store, sizeof store, "%s", path);
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    dice = getpid();
    control = map;
}

static int which(const char *path)
{
    if (!control)
        return NONE;
    if (!strcmp(path, folder))
        return FOLDER;
    size_t len = strlen(store);
    if (strncmp(path, store, len))
        return NONE;
    if (!path[len])
        return STORE;
    return !strncmp(path + len, "-wal", 4) || !strcmp(path + len, "-journal") ? LOG : NONE;
}

static int of(int fd)
{
    return fd >= 0 && fd < FDS ? what[fd] : NONE;
}

// Counts a call before it is made, and stops the process if it is the call to stop at.
static void step(void)
{
    if (!control->counting || ++control->calls != control->stop_at)
        return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    control->stopped_at = now.tv_sec * 1000000000ull + now.tv_nsec;
    raise(SIGSTOP);
}

static int fails(uint32_t share, uint32_t *count)
{
    if (!share || !control->left || (unsigned)rand_r(&dice) % 1000 >= share)
        return 0;
    if (control->left != FOREVER)
        control->left--;
    ++*count;
    control->counting = 1;
    errno = EIO;
    return 1;
}

// Returns what is known about the pages of the file behind a descriptor, starting empty if it is another file than
// before.
static struct pages *pages_of(int fd, int file)
{
    if (file != STORE && file != LOG)
        return NULL;
    struct pages *pages = control->pages + (file == LOG);
    struct statx stat;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &stat))
        return NULL;
    uint64_t born = stat.stx_btime.tv_sec * 1000000000ull + stat.stx_btime.tv_nsec;
    if (pages->number != stat.stx_ino || pages->born != born) {
        memset(pages, 0, sizeof *pages);
        pages->number = stat.stx_ino, pages->born = born;
    }
    return pages;
}

// Pages beyond the new end of the file have nothing to lose any more.
static void forget(int fd, int file, off_t size)
{
    struct pages *pages = pages_of(fd, file);
    for (off_t page = (size + PAGE - 1) / PAGE; pages && page < PAGES; page++)
        pages->dirty[page] = pages->lost[page] = 0;
}

// A write marks whole pages, because the kernel writes whole pages to the disk.
static void dirty(int fd, int file, off_t off, ssize_t len)
{
    struct pages *pages = pages_of(fd, file);
    for (off_t page = off / PAGE; pages && len > 0 && page <= (off + len - 1) / PAGE && page < PAGES; page++) {
        pages->dirty[page] = 1;
        pages->lost[page] = 0;
    }
}

static void say(int file, const char *what)
{
    char thread[16] = "?";
    pthread_getname_np(pthread_self(), thread, sizeof thread);
    dprintf(2, "failing: %s: a sync of the %s %s\n", thread, file == LOG ? "log" : file == STORE ? "store" : "folder", what);
}

// Reports, once, a sync while pages of a failed sync have not been written again.
static void judge(int fd, int file)
{
    struct pages *pages = pages_of(fd, file);
    if (!pages || !memchr(pages->lost, 1, PAGES))
        return;
    control->synced_again++;
    say(file, "after one that failed");
    memset(pages->lost, 0, PAGES);
}

static int opened(const char *path, int flags, mode_t mode)
{
    resolve();
    int file = which(path);
    if (file == NONE)
        return real_open(path, flags, mode);
    pthread_mutex_lock(&mutex);
    if (file == LOG)
        step();
    int fd = real_open(path, flags, mode);
    if (fd >= FDS)
        abort();
    if (fd >= 0) {
        what[fd] = file;
        owed[fd] = 0;
        if (flags & O_TRUNC)
            forget(fd, file, 0);
    }
    pthread_mutex_unlock(&mutex);
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return opened(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return opened(path, flags, mode);
}

int close(int fd)
{
    resolve();
    if (of(fd))
        what[fd] = NONE;
    return real_close(fd);
}

static ssize_t put(int fd, int file, const void *bytes, size_t len, off_t off)
{
    return file < 0 ? real_write(fd, bytes, len) : real_pwrite(fd, bytes, len, off);
}

// Writes at `off` if `has_off`, otherwise at the descriptor's position. Half of a failing write may have been done.
static ssize_t written(int fd, const void *bytes, size_t len, off_t off, int has_off)
{
    int file = of(fd), how = has_off ? 1 : -1;
    if (file == NONE || file == FOLDER)
        return put(fd, how, bytes, len, off);
    pthread_mutex_lock(&mutex);
    step();
    int failed = fails(control->writes, &control->failed_writes);
    ssize_t done = failed && rand_r(&dice) % 2 ? -1 : put(fd, how, bytes, failed ? len / 2 : len, off);
    dirty(fd, file, off, done);
    if (failed) {
        errno = EIO;
        done = -1;
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    resolve();
    return written(fd, bytes, len, of(fd) ? lseek(fd, 0, SEEK_CUR) : 0, 0);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t off)
{
    resolve();
    return written(fd, bytes, len, off, 1);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t off)
{
    return pwrite64(fd, bytes, len, off);
}

int ftruncate64(int fd, off64_t size)
{
    resolve();
    int file = of(fd);
    if (file != STORE && file != LOG)
        return real_ftruncate(fd, size);
    pthread_mutex_lock(&mutex);
    step();
    int result = fails(control->writes, &control->failed_writes) ? -1 : real_ftruncate(fd, size);
    if (!result)
        forget(fd, file, size);
    pthread_mutex_unlock(&mutex);
    return result;
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

static void sync_failed(struct pages *pages, int file)
{
    say(file, "fails");
    for (int fd = 0; fd < FDS; fd++)
        owed[fd] |= file == LOG && what[fd] == LOG;
    for (int page = 0; pages && page < PAGES; page++)
        pages->lost[page] |= pages->dirty[page];
}

static int synced(int fd, int (*sync)(int))
{
    int file = of(fd);
    if (file == NONE)
        return sync(fd);
    pthread_mutex_lock(&mutex);
    step();
    int failed = owed[fd];
    struct pages *pages = pages_of(fd, file);
    if (!failed) {
        judge(fd, file);
        failed = fails(control->syncs, &control->failed_syncs);
        if (failed)
            sync_failed(pages, file);
    }
    owed[fd] = 0;
    if (pages)
        memset(pages->dirty, 0, PAGES);
    pthread_mutex_unlock(&mutex);
    // The lock is released before the sync, because commits go on while another thread syncs.
    return failed ? (errno = EIO, -1) : sync(fd);
}

int fsync(int fd)
{
    resolve();
    return synced(fd, real_fsync);
}

int fdatasync(int fd)
{
    resolve();
    return synced(fd, real_fdatasync);
}
