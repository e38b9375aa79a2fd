/* Sends one request at a time on each of several connections, over the wire or by FastCGI, and measures the answers.
 *
 *   pace wire|fastcgi SOCKET CONNECTIONS SECONDS GAP_US TARGET PATH        env: PIN=cpu
 *
 * TARGET is the name of a call whose payload is PATH, or with fastcgi the script that answers GET PATH; its connections are
 * kept open. GAP_US is the minimum time between the beginnings of two requests on a connection; 0 for none. Prints
 * {"answered":n,"seconds":s,"errors":n,"p50_us":t,"p99_us":t}. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "io.h"

enum { MAX_CONNECTIONS = 64, MAX_ANSWERS = 1 << 22, PATIENCE_MS = 5000, FCGI_HEADER = 8 };
enum { FCGI_BEGIN = 1, FCGI_END = 3, FCGI_PARAMS = 4, FCGI_STDIN = 5, FCGI_STDOUT = 6 };

struct connection {
	int fd;
	bool is_open; /* a request is not answered yet */
	bool has_body;
	uint32_t id;
	uint64_t due, began;
	struct inbuf in;
};

static struct connection all[MAX_CONNECTIONS];
static uint8_t request[4096];
static uint32_t request_size, answered, errors;
static float *took_us;
static bool is_wire;

static void add_record(uint8_t type, const void *content, uint16_t size)
{
	uint8_t head[FCGI_HEADER] = {1, type, 0, 1, (uint8_t)(size >> 8), (uint8_t)size};

	memcpy(request + request_size, head, sizeof head);
	memcpy(request + request_size + sizeof head, content, size);
	request_size += sizeof head + size;
}

static void prepare_fastcgi(const char *script, const char *path)
{
	const char *const params[][2] = {
		{"SCRIPT_FILENAME", script}, {"SCRIPT_NAME", "/index.php"}, {"REQUEST_METHOD", "GET"}, {"REQUEST_URI", path},
		{"QUERY_STRING", ""}, {"SERVER_PROTOCOL", "HTTP/1.1"}, {"HTTP_HOST", "localhost"}, {"SERVER_NAME", "localhost"},
		{"SERVER_PORT", "80"},
	};
	uint8_t begin[8] = {0, 1, 1}, list[2048]; /* the role of a responder; keep the connection */
	uint16_t size = 0;

	for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
		size_t name = strlen(params[i][0]), value = strlen(params[i][1]);

		if (value > 127)
			die("longer than 127 bytes: %s", params[i][1]);
		list[size++] = (uint8_t)name;
		list[size++] = (uint8_t)value;
		memcpy(list + size, params[i][0], name);
		memcpy(list + size + name, params[i][1], value);
		size += (uint16_t)(name + value);
	}
	add_record(FCGI_BEGIN, begin, sizeof begin);
	add_record(FCGI_PARAMS, list, size);
	add_record(FCGI_PARAMS, "", 0);
	add_record(FCGI_STDIN, "", 0);
}

static void prepare_wire(const char *name, const char *path)
{
	struct frame f = {.type = REQ, .code = RAW, .prio = DEFAULT_PRIORITY, .name_len = (uint8_t)strlen(name)};
	uint32_t len = (uint32_t)strlen(path);

	if (strlen(name) > MAX_NAME || len > 2048)
		die("the name or the path is too long");
	request_size = frame_header(request, &f, len);
	memcpy(request + HEADER, name, f.name_len);
	memcpy(request + HEADER + f.name_len, path, len);
}

static void greet(struct connection *c)
{
	uint8_t hello[MAX_HELLO];
	struct frame f;

	if (!write_all(c->fd, hello, hello_client(hello)))
		die("the broker closed the connection");
	read_frame(&c->in, c->fd, &f);
	expect_welcome(&f);
}

static void send_request(struct connection *c)
{
	c->began = now_ns();
	c->is_open = true;
	c->has_body = false;
	if (is_wire)
		frame_set_id(request, ++c->id);
	if (!write_all(c->fd, request, request_size))
		die("the server closed the connection");
}

static void complain_once(const void *text, size_t len)
{
	if (!errors++)
		fprintf(stderr, "pace: a request failed: %.*s\n", (int)len, (const char *)text);
}

/* Whether the answer is complete. */
static bool take_wire(struct connection *c)
{
	struct frame f;
	int got = inbuf_next(&c->in, &f);

	if (got < 0 || (got > 0 && (f.type != RES || f.id != c->id)))
		die("not an answer to the open request");
	if (got > 0 && (f.code != OK || frame_body_len(&f) == 0))
		complain_once(frame_body(&f), frame_body_len(&f));
	return got > 0;
}

/* Whether the answer is complete. A status other than 200 is a header of the answer. */
static bool take_fastcgi(struct connection *c)
{
	while (c->in.end - c->in.start >= FCGI_HEADER) {
		const uint8_t *at = c->in.bytes + c->in.start;
		size_t len = (size_t)at[4] << 8 | at[5], whole = FCGI_HEADER + len + at[6];

		if (c->in.end - c->in.start < whole)
			break;
		c->in.start += whole;
		if (at[1] == FCGI_STDOUT && len > 0) {
			c->has_body = true;
			if (memmem(at + FCGI_HEADER, len, "Status: ", 8))
				complain_once(at + FCGI_HEADER, len);
		}
		if (at[1] == FCGI_END) {
			if (!c->has_body)
				complain_once("nothing was printed", 19);
			return true;
		}
	}
	return false;
}

static void receive(struct connection *c, uint64_t gap)
{
	if (inbuf_read(&c->in, c->fd) <= 0)
		die("the server closed the connection");
	if (!(is_wire ? take_wire(c) : take_fastcgi(c)))
		return;
	uint64_t now = now_ns();

	c->is_open = false;
	c->due = c->began + gap > now ? c->began + gap : now;
	if (answered == MAX_ANSWERS)
		die("more than %d answers", MAX_ANSWERS);
	took_us[answered++] = (float)(now - c->began) / 1e3f;
}

/* Sends what is due, then waits for an answer or for the next request that is due. Returns false if nothing is left to wait for. */
static bool turn(long connections, uint64_t gap, uint64_t end)
{
	struct pollfd fds[MAX_CONNECTIONS];
	uint64_t now = now_ns(), next = UINT64_MAX;
	bool is_any_open = false;

	for (long i = 0; i < connections; i++) {
		struct connection *c = &all[i];

		if (!c->is_open && c->due <= now && now < end)
			send_request(c);
		if (!c->is_open && c->due < next)
			next = c->due;
		is_any_open |= c->is_open;
		fds[i] = (struct pollfd){.fd = c->fd, .events = POLLIN};
	}
	if (!is_any_open && (now >= end || next >= end))
		return false;
	uint64_t left = next < end ? (next > now ? next - now : 0) : (uint64_t)PATIENCE_MS * 1000000;
	struct timespec time = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
	int ready = ppoll(fds, (nfds_t)connections, &time, NULL);

	if (ready < 0 && errno != EINTR)
		die("poll: %s", strerror(errno));
	if (ready == 0 && next >= end)
		die("no answer in time");
	for (long i = 0; i < connections && ready > 0; i++)
		if (fds[i].revents)
			receive(&all[i], gap);
	return true;
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static double at(double share)
{
	return answered ? took_us[(uint32_t)((answered - 1) * share)] : 0;
}

int main(int argc, char **argv)
{
	if (argc != 8 || (strcmp(argv[1], "wire") && strcmp(argv[1], "fastcgi")))
		die("usage: pace wire|fastcgi SOCKET CONNECTIONS SECONDS GAP_US TARGET PATH");
	pin_from_env();
	is_wire = !strcmp(argv[1], "wire");
	long connections = number("CONNECTIONS", argv[3], 1, MAX_CONNECTIONS), seconds = number("SECONDS", argv[4], 1, 3600);
	uint64_t gap = 1000 * (uint64_t)number("GAP_US", argv[5], 0, 10000000);

	took_us = malloc(MAX_ANSWERS * sizeof *took_us);
	if (!took_us)
		die("out of memory");
	(is_wire ? prepare_wire : prepare_fastcgi)(argv[6], argv[7]);
	for (long i = 0; i < connections; i++) {
		all[i].fd = dial(argv[2]);
		if (is_wire)
			greet(&all[i]);
	}
	uint64_t start = now_ns(), end = start + (uint64_t)seconds * 1000000000u;

	while (turn(connections, gap, end))
		;
	double took = (double)(now_ns() - start) / 1e9;

	qsort(took_us, answered, sizeof *took_us, compare);
	printf("{\"answered\":%u,\"seconds\":%.6f,\"errors\":%u,\"p50_us\":%.1f,\"p99_us\":%.1f}\n", answered, took, errors,
	       at(0.5), at(0.99));
	return errors ? 1 : 0;
}
