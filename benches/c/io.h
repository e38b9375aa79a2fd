/* What every benchmark program needs from the system: time, a CPU, a socket, and reading frames off it. */
#ifndef STOKER_BENCH_IO_H
#define STOKER_BENCH_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "frame.h"

/* One read takes at most this much, and no frame is longer: enough for benchmarks, and it stays in the cache. */
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

/* A number from the command line or the environment; ends the program if it is none or out of range. */
long number(const char *what, const char *text, long min, long max);

/* Moves this process to the CPU that PIN names, if it is set. */
void pin_from_env(void);

/* A connected, blocking unix stream socket. */
int dial(const char *path);

/* False if the other side has gone. Any other error ends the program. */
bool write_all(int fd, const void *bytes, size_t size);

/* One read() into the free part of the buffer. Returns what read() returned. */
ssize_t inbuf_read(struct inbuf *in, int fd);

/* The next whole frame: 1, 0 = read more first, -1 = this is not our wire. */
static inline int inbuf_next(struct inbuf *in, struct frame *f)
{
	int got = frame_parse(in->bytes + in->start, in->end - in->start, READ_BUFFER, f);

	if (got > 0)
		in->start += f->size;
	return got;
}

/* Reads, blocking, until there is one more frame; ends the program if there will be none. */
void read_frame(struct inbuf *in, int fd, struct frame *f);

/* Ends the program with what the other side said, unless `f` is a WELCOME. */
void expect_welcome(const struct frame *f);

#endif
