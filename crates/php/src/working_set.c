/* The memory that a task touches, so that each worker can have it mapped before its task comes: each page that is not mapped
 * causes a page fault, and a task of a framework has hundreds of them. */
#include "working_set.h"
#include "zygote.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
/* The maximum number of ranges that are noted. */
#define MAX_RANGES 8192
#define MAX_PAGES 16384
/* Larger mappings are reserved addresses rather than memory, and take long to look at, in bytes. */
#define MAX_MAPPING (1ull << 32)
/* The longest time of the sample task, in seconds. */
#define MAX_TIME 30

/* The bits of an entry of /proc/self/pagemap. */
#define PRESENT (1ull << 63)
#define OF_FILE (1ull << 61)
#define EXCLUSIVE (1ull << 56)

struct range {
    uintptr_t begin, end;
    bool is_written;
};

struct ranges {
    size_t count, pages;
    struct range all[MAX_RANGES];
};

/* Shared with the copy that notes them. */
static struct ranges *ranges;

static void add(uintptr_t page, size_t size, bool is_written)
{
    struct range *last = ranges->count > 0 ? &ranges->all[ranges->count - 1] : NULL;
    if (ranges->pages == MAX_PAGES)
        return;
    if (last && last->end == page && last->is_written == is_written) {
        last->end += size;
    } else if (ranges->count < MAX_RANGES) {
        ranges->all[ranges->count++] = (struct range){page, page + size, is_written};
    } else {
        return;
    }
    ranges->pages++;
}

/* Notes the pages of one mapping: those that this process has copied by writing to them, and those of files that it has read. Other pages
 * are mapped in each copy anyway. */
static void note_mapping(int pagemap, uintptr_t begin, uintptr_t end, bool is_private)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t entries[512];
    while (begin < end) {
        size_t left = (end - begin) / size, count = left < 512 ? left : 512;
        ssize_t len = pread(pagemap, entries, count * sizeof *entries, (off_t)(begin / size * sizeof *entries));
        if (len <= 0)
            return;
        for (size_t at = 0; at < (size_t)len / sizeof *entries; at++, begin += size) {
            bool is_own = is_private && (entries[at] & EXCLUSIVE) && !(entries[at] & OF_FILE);
            if ((entries[at] & PRESENT) && (is_own || (entries[at] & OF_FILE)))
                add(begin, size, is_own);
        }
    }
}

static void note_all(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    char *line = NULL;
    size_t line_size = 0;
    while (maps && pagemap >= 0 && getline(&line, &line_size, maps) > 0) {
        uintptr_t begin, end;
        char rights[5];
        bool is_readable = sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 && rights[0] == 'r';
        /* Mappings of the kernel, and the stack, which grows. */
        if (is_readable && end - begin <= MAX_MAPPING && !strstr(line, "[v"))
            note_mapping(pagemap, begin, end, rights[3] == 'p' && rights[1] == 'w');
    }
    free(line);
    if (maps)
        fclose(maps);
    close(pagemap);
}

void working_set_record(void (*task)(void))
{
    ranges = mmap(NULL, sizeof *ranges, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ranges == MAP_FAILED) {
        ranges = NULL;
        return;
    }
    int status = 0, pid = zygote_clone(false);
    if (pid == 0) {
        alarm(MAX_TIME);
        task();
        note_all();
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || status != 0)
        fprintf(stderr, "stoker-php: the sample task of stoker_handle() did not end normally: workers start without it\n");
}

void working_set_prefault(void)
{
    for (size_t at = 0; ranges && at < ranges->count; at++) {
        struct range *range = &ranges->all[at];
        madvise((void *)range->begin, range->end - range->begin, range->is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    }
}
