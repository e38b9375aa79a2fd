/* Echo worker: answers every call with its body and every job with OK.
 *
 *   worker [batch|each]              env: STOKER_FD (inherited) or STOKER_SOCKET (to dial), PIN=cpu,
*                                         IDEMPOTENT=0 if its calls must not run again,
*                                         STOKER_TASKS=n to exit after n tasks
 *
 * `batch` writes once per read, which suits the RPC benchmark: it measures the server, not the worker. `each` writes
 * every answer before the next task starts, as protocol.md 8.3 requires of workers whose tasks may kill them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "io.h"

/* Answers are shorter than the requests that they echo, so the answers to one read always fit. */
enum { OUT_SIZE = READ_BUFFER };

struct worker {
	int fd;
	bool each;
	bool leaving; /* GOAWAY or the last task was read: answer the tasks received so far, then exit */
	long tasks; /* the number of tasks that it will still take; 0 = unlimited */
	size_t out_len;
	uint64_t last_ns; /* when the previous answer was ready */
};

static struct inbuf in;
static uint8_t out[OUT_SIZE];

static void flush_out(struct worker *w)
{
	/* If the server has gone, there is nothing left to do. */
	if (w->out_len && !write_all(w->fd, out, w->out_len))
		exit(0);
	w->out_len = 0;
}

static uint32_t microseconds_worked(struct worker *w)
{
	uint64_t now = now_ns(), ns = now - w->last_ns;

	w->last_ns = now;
	return (uint32_t)(ns / 1000 + 1); /* rounded up: 0 would mean "not measured" */
}

static void answer(struct worker *w, const struct frame *req)
{
	struct frame res = {.type = RES, .code = OK, .prio = req->code, .id = req->id};
	uint32_t len = frame_has_meta(req, META_JOB_ID) ? 0 : frame_body_len(req);

	res.ttl = microseconds_worked(w);
	w->out_len += frame_simple(out + w->out_len, &res, frame_body(req), len);
}

static void handle(struct worker *w, const struct frame *f)
{
	switch (f->type) {
	case REQ:
		answer(w, f);
		w->leaving |= w->tasks && --w->tasks == 0;
		break;
	case PING: {
		struct frame pong = {.type = PONG, .id = f->id};

		w->out_len += frame_simple(out + w->out_len, &pong, "", 0);
		break;
	}
	case GOAWAY:
		w->leaving = true;
		break;
	case CANCEL: /* HELLO does not offer soft_cancel, and every task is answered as soon as it is read */
	case PONG:
		break;
	case RES:
		die("the broker found fault (status %u): %.*s", f->code, (int)frame_body_len(f), frame_body(f));
	default:
		die("a frame of type %u is not for a worker", f->type);
	}
	if (w->each)
		flush_out(w);
}

/* Handles buffered frames before it reads: requests may have arrived together with WELCOME. */
static void serve(struct worker *w)
{
	for (;;) {
		struct frame f;
		int got;
		ssize_t n;

		w->last_ns = now_ns();
		while ((got = inbuf_next(&in, &f)) > 0)
			handle(w, &f);
		if (got < 0)
			die("the broker does not speak the wire");
		flush_out(w);
		if (w->leaving)
			return;
		n = inbuf_read(&in, w->fd);
		if (n < 0 && errno != ECONNRESET)
			die("read: %s", strerror(errno));
		if (n <= 0)
			return;
	}
}

static int connect_broker(void)
{
	const char *fd = getenv("STOKER_FD"), *path = getenv("STOKER_SOCKET");

	if (fd && *fd)
		return (int)number("STOKER_FD", fd, 0, 1 << 20);
	if (path && *path)
		return dial(path);
	die("neither STOKER_FD nor STOKER_SOCKET is set");
}

int main(int argc, char **argv)
{
	const char *may_repeat = getenv("IDEMPOTENT"), *tasks = getenv("STOKER_TASKS");
	bool idempotent = !may_repeat || number("IDEMPOTENT", may_repeat, 0, 1);
	struct worker w = {0};
	uint8_t hello[MAX_HELLO];
	struct frame f;

	if (argc > 2 || (argc == 2 && strcmp(argv[1], "batch") && strcmp(argv[1], "each")))
		die("usage: worker [batch|each]");
	w.each = argc == 2 && !strcmp(argv[1], "each");
	pin_from_env();
	w.tasks = tasks ? number("STOKER_TASKS", tasks, 1, 1 << 30) : 0;
	w.fd = connect_broker();
	if (!write_all(w.fd, hello, hello_worker(hello, idempotent, w.tasks)))
		die("the broker closed the connection");
	read_frame(&in, w.fd, &f);
	expect_welcome(&f);
	serve(&w);
	return 0;
}
