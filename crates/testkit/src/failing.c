// Preloaded into a process that has a store open. Makes one system call on the store's files fail, or all calls from
// one on for a while, and checks that data lost by a failed sync is never treated as safe.
//
//   FAILING_DIR    the folder with the files
//   FAILING_REPORT a file that gets a line for each call, each failure and each mistake of the process
//   FAILING_AT     which call fails: its sort, the file and its number, as in "sync jobs.db-wal 3"; none if not set
//   FAILING_ERRNO  the error
//   FAILING_COUNT  how many calls fail from there on; 0 for all until the file FAILING_HEAL exists
//   FAILING_SHORT  if set, the call itself writes half of its bytes, and the next one fails
//   FAILING_ALONE  if set, calls on other files do not fail
//   FAILING_NEXT   if set, after the first failure only calls of this sort fail
//   FAILING_ARM    calls are counted once this file exists
//
// No sync reaches the disk: these tests cut no power, and thousands of runs must be quick. Instead the library notes
// which bytes of a file were not synced when a sync of it failed. The kernel may have dropped them, so success of a
// later sync means nothing unless they were written again.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FDS = 4096, SITES = 256, INODES = 256, NAME = 64 };

struct range {
    off_t from, to;
};

struct ranges {
    struct range *all;
    size_t count, room;
};

// What is known about a file, whichever descriptor it was opened by.
struct inode {
    dev_t dev;
    ino_t ino;
    struct ranges dirty, lost;
    int failures, is_used;
};

// A sort of call on a file, and how many there were.
struct site {
    char call[16], file[NAME];
    long count;
};

static char dir[PATH_MAX], heal[PATH_MAX], arm[PATH_MAX], at_call[16], at_file[NAME], next_call[16];
static long at_number, left;
static int error_number, is_for_ever, is_short, is_alone, is_of_reads, has_begun, report = -1;
// Whether names in the folder changed since its last sync, and whether a sync of such changes failed.
static int names_changed, names_are_unsafe;
static char name_of[FDS][NAME];
// How many failed syncs of its file have been reported to a descriptor. As in Linux, each descriptor that was open when
// a sync failed gets the error once, whichever descriptor was synced.
static int told_of[FDS];
static struct site sites[SITES];
static struct inode inodes[INODES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define REAL(result, name, ...) static result (*real_##name)(__VA_ARGS__)
REAL(int, open64, const char *, int, ...);
REAL(int, close, int);
REAL(ssize_t, read, int, void *, size_t);
REAL(ssize_t, pread64, int, void *, size_t, off_t);
REAL(ssize_t, write, int, const void *, size_t);
REAL(ssize_t, pwrite64, int, const void *, size_t, off_t);
REAL(int, ftruncate64, int, off_t);
REAL(int, posix_fallocate64, int, off_t, off_t);
REAL(int, fallocate64, int, int, off_t, off_t);
REAL(int, unlink, const char *);
REAL(int, rename, const char *, const char *);
REAL(int, link, const char *, const char *);
REAL(void *, mmap64, void *, size_t, int, int, int, off_t);
REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
REAL(ssize_t, sendfile64, int, int, off_t *, size_t);
REAL(int, statx, int, const char *, int, unsigned, struct statx *);

static void resolve(void)
{
    if (real_open64)
        return;
#define FIND(name) real_##name = dlsym(RTLD_NEXT, #name)
    FIND(close), FIND(read), FIND(pread64), FIND(write), FIND(pwrite64), FIND(ftruncate64);
    FIND(posix_fallocate64), FIND(fallocate64), FIND(unlink), FIND(rename), FIND(link);
    FIND(mmap64), FIND(copy_file_range), FIND(sendfile64), FIND(statx), FIND(open64);
}

// Whether a call changes nothing.
static int only_reads(const char *call)
{
    return !strcmp(call, "read") || !strcmp(call, "open") || !strcmp(call, "stat");
}

static void copy_env(char *to, size_t room, const char *name)
{
    const char *value = getenv(name);
    snprintf(to, room, "%s", value ? value : "");
}

__attribute__((constructor)) static void begin(void)
{
    resolve();
    char text[PATH_MAX];
    copy_env(text, sizeof text, "FAILING_REPORT");
    report = real_open64(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    copy_env(heal, sizeof heal, "FAILING_HEAL");
    copy_env(arm, sizeof arm, "FAILING_ARM");
    copy_env(text, sizeof text, "FAILING_AT");
    sscanf(text, "%15s %63s %ld", at_call, at_file, &at_number);
    is_of_reads = only_reads(at_call);
    copy_env(next_call, sizeof next_call, "FAILING_NEXT");
    copy_env(text, sizeof text, "FAILING_ERRNO");
    error_number = atoi(text);
    copy_env(text, sizeof text, "FAILING_COUNT");
    left = atol(text);
    is_for_ever = !left;
    is_short = !!getenv("FAILING_SHORT");
    is_alone = !!getenv("FAILING_ALONE");
    // This is set last, because calls are counted from then on.
    copy_env(dir, sizeof dir, "FAILING_DIR");
}

static void say(const char *format, ...)
{
    char line[256];
    va_list rest;
    va_start(rest, format);
    int len = vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    if (real_write(report, line, len) != len)
        abort();
}

__attribute__((destructor)) static void end(void)
{
    if (names_are_unsafe)
        say("fault: the folder was not synced any more after that failed\n");
}

// The file's name in the folder, "." for the folder itself, NULL for paths elsewhere.
static const char *inside(const char *path)
{
    size_t len = strlen(dir);
    if (!len || strncmp(path, dir, len))
        return NULL;
    if (!path[len])
        return ".";
    return path[len] == '/' && strlen(path) - len < NAME ? path + len + 1 : NULL;
}

static const char *of(int fd)
{
    return fd >= 0 && fd < FDS && *name_of[fd] ? name_of[fd] : NULL;
}

static struct site *site(const char *call, const char *file)
{
    for (struct site *site = sites; site < sites + SITES; site++) {
        if (!*site->call) {
            snprintf(site->call, sizeof site->call, "%s", call);
            snprintf(site->file, sizeof site->file, "%s", file);
        }
        if (!strcmp(site->call, call) && !strcmp(site->file, file))
            return site;
    }
    abort();
}

// Whether calls of this sort fail while the fault lasts. On a full disk, files can still be removed and read.
static int is_meant(const char *call)
{
    if (*next_call)
        return !strcmp(call, next_call);
    if (is_of_reads != only_reads(call))
        return 0;
    return error_number != ENOSPC || (strcmp(call, "unlink") && strcmp(call, "mmap"));
}

static int is_over(void)
{
    if (is_for_ever)
        return !access(heal, F_OK);
    return left <= 0;
}

// Counts a call, and returns whether it fails; 2 if it does half of its work first.
static int fails(const char *call, const char *file)
{
    if (!*dir || access(arm, F_OK))
        return 0;
    struct site *here = site(call, file);
    here->count++;
    int is_it = here->count == at_number && !strcmp(call, at_call) && !strcmp(file, at_file) && !is_over();
    if (!*at_call)
        say("call %s %s %ld\n", call, file, here->count);
    if (is_it)
        has_begun = 1;
    else if (!has_begun || !is_meant(call) || (is_alone && strcmp(file, at_file)) || is_over())
        return 0;
    if (is_it && is_short) {
        say("short %s %s %ld\n", call, file, here->count);
        return 2;
    }
    left--;
    say("fails %s %s %ld\n", call, file, here->count);
    return 1;
}

static struct inode *inode(const struct stat *stat)
{
    struct inode *free = NULL;
    for (struct inode *inode = inodes; inode < inodes + INODES; inode++) {
        if (inode->is_used && inode->dev == stat->st_dev && inode->ino == stat->st_ino)
            return inode;
        if (!inode->is_used && !free)
            free = inode;
    }
    if (!free)
        abort();
    *free = (struct inode){.dev = stat->st_dev, .ino = stat->st_ino, .is_used = 1};
    return free;
}

static struct inode *inode_of(int fd)
{
    struct stat stat;
    if (fstat(fd, &stat))
        abort();
    return inode(&stat);
}

static void add(struct ranges *ranges, off_t from, off_t to)
{
    if (from >= to)
        return;
    struct range *last = ranges->count ? &ranges->all[ranges->count - 1] : NULL;
    if (last && from <= last->to && to >= last->from) {
        last->from = from < last->from ? from : last->from;
        last->to = to > last->to ? to : last->to;
        return;
    }
    if (ranges->count == ranges->room) {
        ranges->room = ranges->room * 2 + 64;
        ranges->all = realloc(ranges->all, ranges->room * sizeof *ranges->all);
        if (!ranges->all)
            abort();
    }
    ranges->all[ranges->count++] = (struct range){from, to};
}

static void cut(struct ranges *ranges, off_t from, off_t to)
{
    struct ranges rest = {0};
    for (size_t at = 0; at < ranges->count; at++) {
        struct range range = ranges->all[at];
        add(&rest, range.from, range.to < from ? range.to : from);
        add(&rest, range.from > to ? range.from : to, range.to);
    }
    free(ranges->all);
    *ranges = rest;
}

static void wrote(int fd, off_t from, ssize_t len)
{
    if (len <= 0)
        return;
    struct inode *inode = inode_of(fd);
    add(&inode->dirty, from, from + len);
    if (inode->lost.count)
        cut(&inode->lost, from, from + len);
}

static void cut_short(struct inode *inode, off_t size)
{
    cut(&inode->dirty, size, LLONG_MAX);
    cut(&inode->lost, size, LLONG_MAX);
    if (!size)
        inode->failures = 0;
}

// The file has lost this name, and its inode number may be reused for another file.
static void forget(const struct stat *stat)
{
    struct inode *gone = inode(stat);
    free(gone->dirty.all);
    free(gone->lost.all);
    gone->is_used = 0;
}

// SQLite's shared memory and the lock file need not exist after a power cut.
static void name_changed(const char *name)
{
    size_t len = strlen(name);
    if (len < 4 || (strcmp(name + len - 4, "-shm") && strcmp(name + len - 4, "lock")))
        names_changed = 1;
}

static int opened(const char *path, int flags, mode_t mode)
{
    resolve();
    const char *name = inside(path);
    if (!name)
        return real_open64(path, flags, mode);
    pthread_mutex_lock(&mutex);
    int fd = -1, is_new = flags & O_CREAT && access(path, F_OK);
    // A full disk does not prevent opening an existing file.
    if (fails(is_new ? "create" : "open", name)) {
        errno = error_number;
    } else {
        fd = real_open64(path, flags, mode);
        if (fd >= FDS)
            abort();
        if (fd >= 0 && is_new)
            name_changed(name);
        if (fd >= 0)
            snprintf(name_of[fd], NAME, "%s", name);
        if (fd >= 0 && flags & O_TRUNC)
            cut_short(inode_of(fd), 0);
        if (fd >= 0)
            told_of[fd] = inode_of(fd)->failures;
    }
    pthread_mutex_unlock(&mutex);
    return fd;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                    \
        va_end(rest);                                                                              \
        return opened(path, flags, mode);                                                          \
    }
OPEN(open)
OPEN(open64)

int close(int fd)
{
    resolve();
    if (of(fd))
        *name_of[fd] = 0;
    return real_close(fd);
}

static ssize_t reads(int fd, void *bytes, size_t len, off_t off)
{
    resolve();
    const char *name = of(fd);
    int is_to_fail = 0;
    if (name) {
        pthread_mutex_lock(&mutex);
        is_to_fail = fails("read", name);
        pthread_mutex_unlock(&mutex);
    }
    if (is_to_fail) {
        errno = error_number;
        return -1;
    }
    return off < 0 ? real_read(fd, bytes, len) : real_pread64(fd, bytes, len, off);
}

ssize_t read(int fd, void *bytes, size_t len)
{
    return reads(fd, bytes, len, -1);
}

ssize_t pread64(int fd, void *bytes, size_t len, off64_t off)
{
    return reads(fd, bytes, len, off);
}

ssize_t pread(int fd, void *bytes, size_t len, off_t off)
{
    return reads(fd, bytes, len, off);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t off)
{
    resolve();
    const char *name = of(fd);
    if (!name)
        return real_pwrite64(fd, bytes, len, off);
    pthread_mutex_lock(&mutex);
    int how = fails("write", name);
    ssize_t written = -1;
    if (how == 1)
        errno = error_number;
    else
        written = real_pwrite64(fd, bytes, how == 2 ? len / 2 : len, off);
    wrote(fd, off, written);
    pthread_mutex_unlock(&mutex);
    return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t off)
{
    return pwrite64(fd, bytes, len, off);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    resolve();
    if (!of(fd))
        return real_write(fd, bytes, len);
    off_t off = lseek(fd, 0, SEEK_CUR);
    ssize_t written = pwrite64(fd, bytes, len, off);
    int saved = errno;
    if (written > 0)
        lseek(fd, off + written, SEEK_SET);
    errno = saved;
    return written;
}

int ftruncate64(int fd, off64_t size)
{
    resolve();
    const char *name = of(fd);
    if (!name)
        return real_ftruncate64(fd, size);
    pthread_mutex_lock(&mutex);
    int result = -1;
    if (fails("truncate", name)) {
        errno = error_number;
    } else {
        result = real_ftruncate64(fd, size);
        if (!result)
            cut_short(inode_of(fd), size);
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

static int counts(const char *call, const char *name)
{
    pthread_mutex_lock(&mutex);
    int result = fails(call, name);
    pthread_mutex_unlock(&mutex);
    return result;
}

int posix_fallocate64(int fd, off64_t from, off64_t len)
{
    resolve();
    if (of(fd) && counts("allocate", of(fd)))
        return error_number;
    return real_posix_fallocate64(fd, from, len);
}

int posix_fallocate(int fd, off_t from, off_t len)
{
    return posix_fallocate64(fd, from, len);
}

int fallocate64(int fd, int mode, off64_t from, off64_t len)
{
    resolve();
    if (of(fd) && counts("allocate", of(fd))) {
        errno = error_number;
        return -1;
    }
    return real_fallocate64(fd, mode, from, len);
}

int fallocate(int fd, int mode, off_t from, off_t len)
{
    return fallocate64(fd, mode, from, len);
}

static void sync_failed(const char *name, struct inode *inode)
{
    if (!strcmp(name, "."))
        names_are_unsafe = names_changed;
    for (size_t at = 0; at < inode->dirty.count; at++)
        add(&inode->lost, inode->dirty.all[at].from, inode->dirty.all[at].to);
    inode->dirty.count = 0;
    inode->failures++;
}

static void sync_succeeded(const char *name, struct inode *inode)
{
    if (!strcmp(name, "."))
        names_are_unsafe = names_changed = 0;
    if (inode->lost.count)
        say("fault: %s was taken for safe, and a sync that failed lost %lld bytes at %lld\n", name,
            (long long)(inode->lost.all->to - inode->lost.all->from), (long long)inode->lost.all->from);
    inode->lost.count = inode->dirty.count = 0;
}

static int syncs(int fd)
{
    const char *name = of(fd);
    pthread_mutex_lock(&mutex);
    int failed = fails("sync", name);
    struct inode *inode = inode_of(fd);
    if (failed)
        sync_failed(name, inode);
    failed |= told_of[fd] < inode->failures;
    told_of[fd] = inode->failures;
    if (!failed)
        sync_succeeded(name, inode);
    pthread_mutex_unlock(&mutex);
    errno = error_number;
    return failed ? -1 : 0;
}

int fsync(int fd)
{
    return of(fd) ? syncs(fd) : 0;
}

int fdatasync(int fd)
{
    return of(fd) ? syncs(fd) : 0;
}

int unlink(const char *path)
{
    resolve();
    const char *name = inside(path);
    if (!name)
        return real_unlink(path);
    pthread_mutex_lock(&mutex);
    int result = -1;
    struct stat gone;
    int was_there = !stat(path, &gone);
    if (fails("unlink", name)) {
        errno = error_number;
    } else {
        result = real_unlink(path);
        if (!result)
            name_changed(name);
        if (!result && was_there && gone.st_nlink == 1)
            forget(&gone);
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

int rename(const char *from, const char *to)
{
    resolve();
    const char *name = inside(to);
    if (!name)
        return real_rename(from, to);
    pthread_mutex_lock(&mutex);
    int result = -1;
    struct stat gone;
    int was_there = !stat(to, &gone);
    if (fails("rename", name)) {
        errno = error_number;
    } else {
        result = real_rename(from, to);
        if (!result)
            name_changed(name);
        if (!result && was_there && gone.st_nlink == 1)
            forget(&gone);
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

int link(const char *from, const char *to)
{
    resolve();
    const char *name = inside(to);
    if (name && counts("link", name)) {
        errno = error_number;
        return -1;
    }
    return real_link(from, to);
}

void *mmap64(void *at, size_t len, int protection, int flags, int fd, off64_t off)
{
    resolve();
    if (of(fd) && protection & PROT_WRITE && counts("mmap", of(fd))) {
        errno = error_number;
        return MAP_FAILED;
    }
    return real_mmap64(at, len, protection, flags, fd, off);
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t off)
{
    return mmap64(at, len, protection, flags, fd, off);
}

static ssize_t copied(int to, ssize_t len, off_t from)
{
    pthread_mutex_lock(&mutex);
    wrote(to, from, len);
    pthread_mutex_unlock(&mutex);
    return len;
}

ssize_t copy_file_range(int from, off64_t *from_off, int to, off64_t *to_off, size_t len,
                        unsigned flags)
{
    resolve();
    if (!of(to))
        return real_copy_file_range(from, from_off, to, to_off, len, flags);
    off_t start = to_off ? *to_off : lseek(to, 0, SEEK_CUR);
    if (counts("copy", of(to))) {
        errno = error_number;
        return -1;
    }
    return copied(to, real_copy_file_range(from, from_off, to, to_off, len, flags), start);
}

ssize_t sendfile64(int to, int from, off64_t *from_off, size_t len)
{
    resolve();
    if (!of(to))
        return real_sendfile64(to, from, from_off, len);
    off_t start = lseek(to, 0, SEEK_CUR);
    if (counts("copy", of(to))) {
        errno = error_number;
        return -1;
    }
    return copied(to, real_sendfile64(to, from, from_off, len), start);
}

ssize_t sendfile(int to, int from, off_t *from_off, size_t len)
{
    return sendfile64(to, from, from_off, len);
}

// Rust's own checks of a file, by name or by descriptor. SQLite uses stat and fstat, which do not fail here: its
// handling of their errors is not under test. The function has another name in C, because the declaration of statx does
// not allow NULL, which Rust's library passes to test whether the call exists.
int looks(int at, const char *path, int flags, unsigned mask, struct statx *to) __asm__("statx");

int looks(int at, const char *path, int flags, unsigned mask, struct statx *to)
{
    resolve();
    const char *name = !path ? NULL : *path ? inside(path) : of(at);
    if (name && counts("stat", name)) {
        errno = error_number;
        return -1;
    }
    return real_statx(at, path, flags, mask, to);
}
