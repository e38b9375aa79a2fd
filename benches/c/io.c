#define _GNU_SOURCE
#include "io.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

long number(const char *what, const char *text, long min, long max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max)
		die("%s must be a number from %ld to %ld, not '%s'", what, min, max, text);
	return value;
}

void pin_from_env(void)
{
	const char *cpu = getenv("PIN");
	cpu_set_t set;

	if (!cpu || !*cpu)
		return;
	CPU_ZERO(&set);
	CPU_SET(number("PIN", cpu, 0, CPU_SETSIZE - 1), &set);
	if (sched_setaffinity(0, sizeof set, &set))
		die("can't move to CPU %s: %s", cpu, strerror(errno));
}

int dial(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (strlen(path) >= sizeof address.sun_path)
		die("the socket's path is too long: %s", path);
	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof address))
		die("can't connect to %s: %s", path, strerror(errno));
	return fd;
}

bool write_all(int fd, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	while (size > 0) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return false;
		if (n < 0)
			die("write: %s", strerror(errno));
		at += n;
		size -= (size_t)n;
	}
	return true;
}

ssize_t inbuf_read(struct inbuf *in, int fd)
{
	ssize_t n;

	/* Usually everything was parsed and this costs nothing; otherwise only the start of one frame is moved. */
	if (in->start > 0) {
		memmove(in->bytes, in->bytes + in->start, in->end - in->start);
		in->end -= in->start;
		in->start = 0;
	}
	do
		n = read(fd, in->bytes + in->end, sizeof in->bytes - in->end);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		in->end += (size_t)n;
	return n;
}

void read_frame(struct inbuf *in, int fd, struct frame *f)
{
	for (;;) {
		int got = inbuf_next(in, f);
		ssize_t n;

		if (got > 0)
			return;
		if (got < 0)
			die("the other side does not speak the wire");
		n = inbuf_read(in, fd);
		if (n < 0)
			die("read: %s", strerror(errno));
		if (n == 0)
			die("the other side closed the connection");
	}
}

void expect_welcome(const struct frame *f)
{
	if (f->type == RES)
		die("refused with status %u: %.*s", f->code, (int)frame_body_len(f), frame_body(f));
	if (f->type != WELCOME)
		die("expected WELCOME, got type %u", f->type);
}
