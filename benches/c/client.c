/* Load client: keeps DEPTH calls in flight for SECONDS and counts the answers.
 *
 *   client SOCKET DEPTH SECONDS NAME BODY_BYTES [IDEMPOTENT]        env: PIN=cpu
 *
 * Prints {"answered":n,"seconds":s,"errors":n}. Waits for the requests that are in flight at the end, so that the
 * server's CPU time before and after this program belongs to exactly the requests it counts. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "io.h"

enum { MAX_DEPTH = 4096, GRACE_SECONDS = 5 };

struct load {
	int fd;
	uint32_t depth, request_size, body_size;
	uint8_t *requests;     /* `depth` equal frames, so that any number up to `depth` can be sent in one write */
	uint32_t *in_flight;   /* the id of each slot's unanswered request, 0 = none */
	uint32_t *answered_ids; /* the ids answered in this turn; the next requests of their slots are sent at its end */
	uint64_t answered, errors;
};

static struct inbuf in;

/* Each slot's id grows by `depth`: ids are unique among the unanswered requests, and a remainder gives an answer's
 * slot. */
static uint32_t slot_of(const struct load *l, uint32_t id)
{
	return (id - 1) % l->depth;
}

static void complain_once(const struct frame *f, const char *what)
{
	static bool said;

	if (!said)
		fprintf(stderr, "client: %s (type %u, status %u, id %u): %.*s\n", what, f->type, f->code, f->id,
			(int)frame_body_len(f), f->type == RES && f->code != OK ? (const char *)frame_body(f) : "");
	said = true;
}

/* Returns false if the frame does not answer an open request. */
static bool take_answer(struct load *l, const struct frame *f)
{
	if (f->type != RES || f->id == 0 || l->in_flight[slot_of(l, f->id)] != f->id) {
		complain_once(f, "not an answer to an open request");
		l->errors++;
		return false;
	}
	l->in_flight[slot_of(l, f->id)] = 0;
	l->answered++;
	if (f->code != OK || frame_body_len(f) != l->body_size) {
		complain_once(f, "a wrong answer");
		l->errors++;
	}
	return true;
}

/* Takes all answers of one read; returns their number. Ends the program if no more can come. */
static uint32_t read_turn(struct load *l)
{
	struct frame f;
	uint32_t n = 0;
	int got;
	ssize_t size = inbuf_read(&in, l->fd);

	if (size < 0)
		die("%s", errno == EAGAIN ? "no answer in time" : strerror(errno));
	if (size == 0)
		die("the broker closed the connection");
	while ((got = inbuf_next(&in, &f)) > 0)
		if (take_answer(l, &f))
			l->answered_ids[n++] = f.id;
	if (got < 0)
		die("the broker does not speak the wire");
	return n;
}

static void send_next(struct load *l, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = l->answered_ids[i] + l->depth;

		frame_set_id(l->requests + i * l->request_size, id);
		l->in_flight[slot_of(l, id)] = id;
	}
	if (!write_all(l->fd, l->requests, (size_t)n * l->request_size))
		die("the broker closed the connection");
}

static void prepare(struct load *l, const char *name, bool idempotent)
{
	struct frame f = {.type = REQ, .flags = idempotent ? IDEMPOTENT : 0, .code = RAW, .prio = DEFAULT_PRIORITY};
	size_t name_len = strlen(name);

	if (name_len < 1 || name_len > MAX_NAME)
		die("NAME must have 1 to 255 bytes");
	f.name_len = (uint8_t)name_len;
	l->request_size = HEADER + f.name_len + l->body_size;
	l->requests = malloc((size_t)l->depth * l->request_size);
	l->in_flight = calloc(l->depth, sizeof *l->in_flight);
	l->answered_ids = calloc(l->depth, sizeof *l->answered_ids);
	if (!l->requests || !l->in_flight || !l->answered_ids)
		die("out of memory");
	for (uint32_t i = 0; i < l->depth; i++) {
		uint8_t *at = l->requests + i * l->request_size;

		frame_header(at, &f, l->body_size);
		memcpy(at + HEADER, name, name_len);
		memset(at + HEADER + name_len, 'x', l->body_size);
	}
}

/* WELCOME may allow fewer requests in flight than DEPTH; finding that out from rejections would spoil the
 * measurement. */
static void greet(struct load *l)
{
	uint8_t hello[MAX_HELLO];
	struct frame f;
	const char *key;
	char json[1024];

	if (!write_all(l->fd, hello, hello_client(hello)))
		die("the broker closed the connection");
	read_frame(&in, l->fd, &f);
	expect_welcome(&f);
	snprintf(json, sizeof json, "%.*s", (int)frame_body_len(&f), (const char *)frame_body(&f));
	key = strstr(json, "\"max_inflight\":");
	if (key && strtoul(key + strlen("\"max_inflight\":"), NULL, 10) < l->depth)
		die("the broker allows fewer than %u requests in flight: %s", l->depth, json);
}

static double run(struct load *l, long seconds)
{
	uint64_t start = now_ns(), end = start + (uint64_t)seconds * 1000000000u;

	for (uint32_t i = 0; i < l->depth; i++)
		l->answered_ids[i] = i + 1; /* as if the request before the first had just been answered */
	send_next(l, l->depth);
	for (uint32_t open = l->depth; open > 0;) {
		uint32_t n = read_turn(l);

		if (now_ns() < end)
			send_next(l, n);
		else
			open -= n;
	}
	return (double)(now_ns() - start) / 1e9;
}

int main(int argc, char **argv)
{
	struct load l = {0};
	struct timeval patience = {0};
	long seconds;
	double took;

	if (argc != 6 && argc != 7)
		die("usage: client SOCKET DEPTH SECONDS NAME BODY_BYTES [IDEMPOTENT]");
	pin_from_env();
	l.depth = (uint32_t)number("DEPTH", argv[2], 1, MAX_DEPTH);
	seconds = number("SECONDS", argv[3], 1, 3600);
	l.body_size = (uint32_t)number("BODY_BYTES", argv[5], 0, READ_BUFFER - HEADER - MAX_NAME);
	prepare(&l, argv[4], argc == 7 && number("IDEMPOTENT", argv[6], 0, 1));

	l.fd = dial(argv[1]);
	patience.tv_sec = GRACE_SECONDS;
	if (setsockopt(l.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
		die("setsockopt: %s", strerror(errno));
	greet(&l);
	took = run(&l, seconds);
	printf("{\"answered\":%lu,\"seconds\":%.6f,\"errors\":%lu}\n", l.answered, took, l.errors);
	return l.errors ? 1 : 0;
}
