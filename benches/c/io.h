/* System functions for all benchmark programs: time, CPU pinning, sockets, and reading frames. */
#ifndef STOKER_BENCH_IO_H
#define STOKER_BENCH_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "frame.h"

/* The maximum size of a read and of a frame: enough for benchmarks, and small enough to stay in the cache. */
enum { READ_BUFFER = 64 * 1024 };

struct inbuf {
	size_t start, end; /* the bytes not yet parsed */
	uint8_t bytes[READ_BUFFER];
};

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Parses a number from the command line or the environment; ends the program if it is invalid or out of range. */
long number(const char *what, const char *text, long min, long max);

/* Moves this process to the CPU that PIN names, if it is set. */
void pin_from_env(void);

/* Returns a connected, blocking unix stream socket. */
int dial(const char *path);

/* Returns false if the other side has closed the connection. Any other error ends the program. */
bool write_all(int fd, const void *bytes, size_t size);

/* One read() into the free part of the buffer. Returns what read() returned. */
ssize_t inbuf_read(struct inbuf *in, int fd);

/* Parses the next frame: 1 = complete, 0 = more bytes must be read first, -1 = not Stoker's wire protocol. */
static inline int inbuf_next(struct inbuf *in, struct frame *f)
{
	int got = frame_parse(in->bytes + in->start, in->end - in->start, READ_BUFFER, f);

	if (got > 0)
		in->start += f->size;
	return got;
}

/* Reads, blocking, until one more frame is complete; ends the program if none can come. */
void read_frame(struct inbuf *in, int fd, struct frame *f);

/* Ends the program with the other side's error message unless `f` is a WELCOME. */
void expect_welcome(const struct frame *f);

#endif
