// Preloaded into a server. Keeps a log of all changes to the store that may not have reached the disk yet. After the
// server's death, `rig/cut.py` uses this log to turn the files into what a power cut could have left of them. When an
// fsync returns, the changes it covers leave the log; changes that are only in the page cache stay in it. After a
// failed fsync (caused by `failing.c`, loaded behind this library) nothing leaves the log of that file any more: the
// changes that the failed fsync should have written are lost, whatever later ones return, and the log records the
// failed and the later fsyncs.
//
//   POWERCUT_STORE  the store's path; its log and its journal belong to it
//   POWERCUT_LOG    a folder for the logs
//
// Each change is logged before it is made, with the old bytes to undo it and the new ones to redo it. The names of
// files have a log of their own, which an fsync of the folder ends.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DB, WAL, JOURNAL, FILES, FOLDER = FILES, NONE };
enum { WRITE = 1, TRUNCATE, SYNCED, FAILED };
enum { FDS = 4096 };

static const char *const suffixes[FILES] = {"", "-wal", "-journal"};
static const char *const names[FILES] = {"db", "wal", "journal"};

struct record {
    uint32_t magic, kind;
    uint64_t off, len, old_len, old_size;
};

static char store[PATH_MAX], folder[PATH_MAX], logs[PATH_MAX];
static int log_of[FILES + 1] = {-1, -1, -1, -1};
static unsigned char failed[FILES]; // whether a sync of the file has failed
static unsigned char what[FDS]; // 1 + the index of the descriptor's file; 0 for none
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int (*real_open)(const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_rename)(const char *, const char *);
static int (*real_unlink)(const char *);

static void resolve(void)
{
    if (real_unlink)
        return;
    real_open = dlsym(RTLD_NEXT, "open64");
    real_close = dlsym(RTLD_NEXT, "close");
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
}

__attribute__((constructor)) static void begin(void)
{
    resolve();
    const char *path = getenv("POWERCUT_STORE"), *to = getenv("POWERCUT_LOG");
    if (!path || !to)
        return;
    snprintf(store, sizeof store, "%s", path);
    snprintf(logs, sizeof logs, "%s", to);
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
}

static void give_up(const char *why)
{
    dprintf(2, "powercut: %s: %s\n", why, strerror(errno));
    abort();
}

static int which(const char *path)
{
    if (!*store)
        return NONE;
    if (!strcmp(path, folder))
        return FOLDER;
    size_t len = strlen(store);
    if (strncmp(path, store, len))
        return NONE;
    for (int file = 0; file < FILES; file++)
        if (!strcmp(path + len, suffixes[file]))
            return file;
    return NONE;
}

static int of(int fd)
{
    return fd >= 0 && fd < FDS && what[fd] ? what[fd] - 1 : NONE;
}

// An earlier server may have seen a sync fail, and may have died while it logged a write that it had not begun.
static int take_over(int log)
{
    struct record record;
    struct stat stat;
    if (fstat(log, &stat))
        give_up("fstat");
    int has_failed = 0;
    off_t at = 0;
    while (pread(log, &record, sizeof record, at) == sizeof record) {
        off_t end = at + sizeof record + record.len + record.old_len;
        if (end > stat.st_size)
            break;
        has_failed |= record.kind == FAILED;
        at = end;
    }
    if (real_ftruncate(log, at))
        give_up("cutting off half a record");
    return has_failed;
}

static int log_fd(int file)
{
    if (log_of[file] < 0) {
        char path[PATH_MAX + 32];
        snprintf(path, sizeof path, "%s/%s.log", logs, file == FOLDER ? "folder" : names[file]);
        log_of[file] = real_open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (log_of[file] < 0)
            give_up(path);
        if (file < FILES)
            failed[file] = take_over(log_of[file]);
    }
    return log_of[file];
}

static void note_name(char what, int file)
{
    char line[32];
    int len = snprintf(line, sizeof line, "%c %s\n", what, names[file]);
    if (real_write(log_fd(FOLDER), line, len) != len)
        give_up("folder.log");
}

static void note(int fd, int file, uint32_t kind, off_t off, const void *bytes, size_t len)
{
    struct stat stat;
    if (fstat(fd, &stat))
        give_up("fstat");
    off_t end = kind == TRUNCATE ? stat.st_size : off + (off_t)len;
    if (end > stat.st_size)
        end = stat.st_size;
    size_t old_len = end > off ? end - off : 0;
    char *old = malloc(old_len + 1);
    // The descriptor may be write-only, so the old bytes are read through another one.
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = old_len ? real_open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (!old || (old_len && (again < 0 || pread(again, old, old_len, off) != (ssize_t)old_len)))
        give_up("reading what was there");
    if (again >= 0)
        real_close(again);
    struct record record = {0x43757400, kind, off, kind == WRITE ? len : 0, old_len, stat.st_size};
    struct iovec parts[] = {{&record, sizeof record}, {old, old_len}, {(void *)bytes, record.len}};
    if (writev(log_fd(file), parts, 3) != (ssize_t)(sizeof record + old_len + record.len))
        give_up("log");
    free(old);
}

static int opened(const char *path, int flags, mode_t mode)
{
    resolve();
    int file = which(path);
    if (file == NONE)
        return real_open(path, flags, mode);
    pthread_mutex_lock(&mutex);
    struct stat stat_;
    int is_new = file < FILES && (flags & O_CREAT) && stat(path, &stat_);
    if (is_new)
        note_name('C', file);
    int fd = real_open(path, flags & ~O_TRUNC, mode);
    if (fd >= FDS) {
        errno = EMFILE;
        give_up("too many descriptors");
    }
    if (fd >= 0 && flags & O_TRUNC) {
        note(fd, file, TRUNCATE, 0, NULL, 0);
        if (real_ftruncate(fd, 0)) {
            real_close(fd);
            fd = -1;
            errno = EIO;
        }
    }
    if (fd >= 0)
        what[fd] = 1 + file;
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
    if (of(fd) != NONE)
        what[fd] = 0;
    return real_close(fd);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    resolve();
    int file = of(fd);
    if (file >= FILES)
        return real_write(fd, bytes, len);
    pthread_mutex_lock(&mutex);
    note(fd, file, WRITE, lseek(fd, 0, SEEK_CUR), bytes, len);
    ssize_t written = real_write(fd, bytes, len);
    pthread_mutex_unlock(&mutex);
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t off)
{
    resolve();
    int file = of(fd);
    if (file >= FILES)
        return real_pwrite(fd, bytes, len, off);
    pthread_mutex_lock(&mutex);
    note(fd, file, WRITE, off, bytes, len);
    ssize_t written = real_pwrite(fd, bytes, len, off);
    pthread_mutex_unlock(&mutex);
    return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t off)
{
    return pwrite64(fd, bytes, len, off);
}

int ftruncate64(int fd, off64_t size)
{
    resolve();
    int file = of(fd);
    if (file >= FILES)
        return real_ftruncate(fd, size);
    pthread_mutex_lock(&mutex);
    note(fd, file, TRUNCATE, size, NULL, 0);
    int result = real_ftruncate(fd, size);
    pthread_mutex_unlock(&mutex);
    return result;
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

static void mark(int file, uint32_t kind)
{
    struct record record = {0x43757400, kind, 0, 0, 0, 0};
    if (real_write(log_fd(file), &record, sizeof record) != sizeof record)
        give_up("log");
}

static int synced(int fd, int (*sync)(int))
{
    int file = of(fd);
    if (file == NONE)
        return sync(fd);
    pthread_mutex_lock(&mutex);
    int result = sync(fd), error = errno, log = log_fd(file);
    if (file < FILES && (result || failed[file])) {
        failed[file] = 1;
        mark(file, result ? FAILED : SYNCED);
    } else if (!result && real_ftruncate(log, 0)) {
        give_up("emptying a log");
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
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

// A file that loses its name is kept under another one until the folder is synced, because a power cut may restore the
// name.
static int keep(const char *path, int file, char why)
{
    char log[PATH_MAX + 32], kept[PATH_MAX + 32], kept_log[PATH_MAX + 48];
    snprintf(kept, sizeof kept, "%s/%s.unlinked", logs, names[file]);
    snprintf(kept_log, sizeof kept_log, "%s/%s.unlinked.log", logs, names[file]);
    snprintf(log, sizeof log, "%s/%s.log", logs, names[file]);
    real_unlink(kept);
    real_unlink(kept_log);
    if (link(path, kept))
        return 0;
    note_name(why, file);
    real_rename(log, kept_log);
    if (log_of[file] >= 0)
        real_close(log_of[file]);
    log_of[file] = -1;
    return 1;
}

int unlink(const char *path)
{
    resolve();
    int file = which(path);
    if (file >= FILES)
        return real_unlink(path);
    pthread_mutex_lock(&mutex);
    keep(path, file, 'U');
    int result = real_unlink(path);
    pthread_mutex_unlock(&mutex);
    return result;
}

int rename(const char *path, const char *to)
{
    resolve();
    int file = which(path), target = which(to);
    if (file >= FILES || target >= FILES)
        return real_rename(path, to);
    pthread_mutex_lock(&mutex);
    keep(to, target, 'R');
    int result = real_rename(path, to);
    if (!result) {
        char log[PATH_MAX + 32], new_log[PATH_MAX + 32];
        snprintf(log, sizeof log, "%s/%s.log", logs, names[file]);
        snprintf(new_log, sizeof new_log, "%s/%s.log", logs, names[target]);
        real_rename(log, new_log);
        log_of[target] = log_of[file];
        failed[target] = failed[file];
        log_of[file] = -1;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}
