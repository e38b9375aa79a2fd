/* The reference server: the minimum that a single-threaded epoll server must do for a call, in C, with Stoker's framing.
 *
 *   broker SOCKET WINDOW WORKERS [SECONDS]        env: PIN=cpu
 *
 * Clients and workers connect to SOCKET and send their role in HELLO. A worker has at most WINDOW requests. Prints
 * "ready" when WORKERS workers have connected. At SIGTERM or after SECONDS it prints one line of JSON: its CPU time,
 * requests and system calls.
 *
 * It does not route by name and has no deadlines, priorities or metrics: it is only a baseline for measurements. The
 * requests that one client has in flight must fit into OUT_BUFFER. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "conn.h"
#include "fifo.h"

enum { MAX_EVENTS = 256, LISTENER = MAX_CONNS, SIGNALS, BACKLOG = 128 };

static struct conn conns[MAX_CONNS];
static struct fifo waiting;
static uint32_t workers[MAX_CONNS], n_workers;
static uint32_t dirty[MAX_CONNS], n_dirty;
static uint32_t window, wanted_workers;
static int epoll_fd, listen_fd;
static bool stop;

static struct {
	uint64_t requests, epoll, read, write;
} count;

static uint32_t index_of(const struct conn *c)
{
	return (uint32_t)(c - conns);
}

/* ---- output ---- */

static void append(struct conn *c, const uint8_t *bytes, uint32_t size)
{
	memcpy(c->out + c->out_len, bytes, size);
	c->out_len += size;
	if (!c->dirty) {
		c->dirty = true;
		dirty[n_dirty++] = index_of(c);
	}
}

static void drop(struct conn *c);

/* Disconnects a client whose output buffer is full, which means that it does not read. */
static void send_to_client(struct conn *c, const uint8_t *frame, uint32_t size)
{
	if (conn_has_room(c, size))
		append(c, frame, size);
	else
		drop(c);
}

static void send_error(struct conn *c, uint32_t id, enum status status, uint8_t flags, const char *text)
{
	struct frame f = {.type = RES, .flags = flags, .code = status, .id = id};
	uint8_t frame[HEADER + 128];

	send_to_client(c, frame, frame_simple(frame, &f, text, strlen(text)));
}

static void watch(struct conn *c, int op, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.u32 = index_of(c)};

	if (epoll_ctl(epoll_fd, op, c->fd, &e))
		die("epoll_ctl: %s", strerror(errno));
}

/* Calls send() once. Bytes that the socket does not accept wait for EPOLLOUT. A failed write only shuts down the
 * connection's output: the next read reports how the connection ended, and may still return answers. */
static void flush_out(struct conn *c)
{
	ssize_t n = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL);

	count.write++;
	if (n < 0 && errno != EAGAIN) {
		shutdown(c->fd, SHUT_WR);
		n = (ssize_t)c->out_len;
	}
	if (n > 0) {
		c->out_len -= (size_t)n;
		memmove(c->out, c->out + n, c->out_len);
	}
	if (c->blocked != (c->out_len > 0)) {
		c->blocked = !c->blocked;
		watch(c, EPOLL_CTL_MOD, EPOLLIN | (c->blocked ? EPOLLOUT : 0));
	}
}

/* A connection may be dropped, and its slot reused, while it is in the list. */
static void flush_all(void)
{
	for (uint32_t i = 0; i < n_dirty; i++) {
		struct conn *c = &conns[dirty[i]];

		c->dirty = false;
		if (c->fd >= 0 && c->out_len > 0 && !c->blocked)
			flush_out(c);
	}
	n_dirty = 0;
}

/* ---- requests and answers ---- */

static struct conn *client_of(uint32_t client, uint32_t generation)
{
	struct conn *c = &conns[client];

	return c->fd >= 0 && c->generation == generation ? c : NULL;
}

static void lend(struct conn *worker, const struct waiting *w)
{
	uint32_t id = worker->next++;
	uint8_t *frame = worker->out + worker->out_len;
	struct assigned *assigned = conn_assigned(worker, id);

	assigned->client = w->client;
	assigned->generation = w->generation;
	assigned->id = get32(w->frame + OFFSET_ID);
	append(worker, w->frame, w->size);
	frame_set_id(frame, id);
}

/* Fills one worker before it continues with the next: this makes fewer and larger writes than distributing in turn. */
static void dispatch(void)
{
	const struct waiting *w = fifo_peek(&waiting);

	for (uint32_t i = 0; i < n_workers && w; i++) {
		struct conn *worker = &conns[workers[i]];

		while (w && conn_holds(worker) < window && conn_has_room(worker, w->size)) {
			if (client_of(w->client, w->generation))
				lend(worker, w);
			fifo_pop(&waiting, w);
			w = fifo_peek(&waiting);
		}
	}
}

static bool take_request(struct conn *client, const struct frame *f)
{
	if (f->id == 0 || f->name_len == 0)
		return false;
	if (!fifo_push(&waiting, index_of(client), client->generation, f))
		send_error(client, f->id, RESOURCE_EXHAUSTED, NOT_PROCESSED, "too much waits already");
	return client->fd >= 0;
}

static bool take_answer(struct conn *worker, const struct frame *f)
{
	struct assigned *assigned;
	struct conn *client;
	uint8_t *frame;

	if (!conn_holds(worker) || f->id != worker->oldest)
		return false;
	assigned = conn_assigned(worker, worker->oldest++);
	count.requests++;
	client = client_of(assigned->client, assigned->generation);
	if (!client)
		return true;
	frame = client->out + client->out_len;
	send_to_client(client, f->bytes, f->size);
	if (client->fd >= 0)
		frame_set_id(frame, assigned->id);
	return true;
}

/* Answers a dead worker's requests with WORKER_DIED: the reference does not know whether they may run again. */
static void bury(struct conn *worker)
{
	uint32_t i = 0;

	while (workers[i] != index_of(worker))
		i++;
	memmove(workers + i, workers + i + 1, (--n_workers - i) * sizeof *workers);
	while (conn_holds(worker)) {
		struct assigned *assigned = conn_assigned(worker, worker->oldest++);
		struct conn *client = client_of(assigned->client, assigned->generation);

		if (client)
			send_error(client, assigned->id, WORKER_DIED, 0, "the worker died");
	}
}

static void drop(struct conn *c)
{
	close(c->fd); /* also removes it from epoll */
	c->fd = -1;
	c->generation++;
	if (c->role == WORKER)
		bury(c);
	c->role = STRANGER;
}

/* ---- handshake and frames ---- */

static bool says_worker(const struct frame *hello)
{
	static const char key[] = "\"role\"", worker[] = "\"worker\"";
	const char *json = (const char *)frame_body(hello), *end = json + frame_body_len(hello);
	const char *at = memmem(json, (size_t)(end - json), key, strlen(key));

	if (!at)
		return false;
	at += strlen(key);
	while (at < end && (*at == ' ' || *at == ':'))
		at++;
	return (size_t)(end - at) >= strlen(worker) && !memcmp(at, worker, strlen(worker));
}

static bool take_hello(struct conn *c, const struct frame *f)
{
	uint8_t welcome[128];

	if (c->role != STRANGER)
		return false;
	c->role = says_worker(f) ? WORKER : CLIENT;
	append(c, welcome, frame_json(welcome, WELCOME, "{\"v\":1,\"max_inflight\":1024}"));
	if (c->role == WORKER) {
		workers[n_workers++] = index_of(c);
		if (n_workers == wanted_workers) {
			puts("ready");
			fflush(stdout);
		}
	}
	return true;
}

static bool take_ping(struct conn *c, const struct frame *f)
{
	struct frame pong = {.type = PONG, .id = f->id};
	uint8_t frame[HEADER];

	send_to_client(c, frame, frame_simple(frame, &pong, "", 0));
	return c->fd >= 0;
}

/* Returns false for a protocol error. CANCEL, GOAWAY and EVENT count as errors here, because the benchmarks send
 * none. */
static bool take(struct conn *c, const struct frame *f)
{
	if (f->type == REQ && c->role == CLIENT)
		return take_request(c, f);
	if (f->type == RES && c->role == WORKER)
		return take_answer(c, f);
	if (f->type == HELLO)
		return take_hello(c, f);
	if (f->type == PING && c->role != STRANGER)
		return take_ping(c, f);
	return false;
}

/* ---- the loop ---- */

static void on_readable(struct conn *c)
{
	struct frame f;
	int got;
	ssize_t n = inbuf_read(&c->in, c->fd);

	count.read++;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		drop(c);
		return;
	}
	while ((got = inbuf_next(&c->in, &f)) > 0) {
		if (!take(c, &f)) {
			if (c->fd >= 0)
				drop(c);
			return;
		}
	}
	if (got < 0)
		drop(c);
}

static void welcome_stranger(void)
{
	struct conn *c = conns;
	int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return; /* the client has already disconnected */
	while (c < conns + MAX_CONNS && c->fd >= 0)
		c++;
	if (c == conns + MAX_CONNS) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->blocked = false;
	c->oldest = c->next = 1; /* id 0 is the connection itself */
	c->in.start = c->in.end = 0;
	c->out_len = 0;
	watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

/* An earlier event of the same turn may have dropped this connection. */
static void on_event(struct conn *c, uint32_t events)
{
	if (c->fd >= 0 && events & EPOLLOUT)
		flush_out(c);
	if (c->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		on_readable(c);
}

static void turn(void)
{
	struct epoll_event events[MAX_EVENTS];
	int n = epoll_wait(epoll_fd, events, MAX_EVENTS, -1);

	count.epoll++;
	if (n < 0 && errno != EINTR)
		die("epoll_wait: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		uint32_t who = events[i].data.u32;

		if (who == LISTENER)
			welcome_stranger();
		else if (who == SIGNALS)
			stop = true;
		else
			on_event(&conns[who], events[i].events);
	}
	dispatch();
	flush_all();
}

static void report(void)
{
	struct rusage r;
	uint64_t requests = count.requests ? count.requests : 1;
	double user, system;

	getrusage(RUSAGE_SELF, &r);
	user = (double)r.ru_utime.tv_sec + (double)r.ru_utime.tv_usec / 1e6;
	system = (double)r.ru_stime.tv_sec + (double)r.ru_stime.tv_usec / 1e6;
	printf("{\"requests\":%lu,\"user_s\":%.6f,\"system_s\":%.6f,\"cpu_us_per_request\":%.4f,"
	       "\"epoll\":%lu,\"read\":%lu,\"write\":%lu,\"syscalls_per_request\":%.4f}\n",
	       count.requests, user, system, (user + system) * 1e6 / (double)requests, count.epoll, count.read,
	       count.write, (double)(count.epoll + count.read + count.write) / (double)requests);
}

static void watch_fd(int fd, uint32_t who)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = who};

	if (fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e))
		die("epoll: %s", strerror(errno));
}

static void listen_on(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof address.sun_path)
		die("the socket's path is too long: %s", path);
	strcpy(address.sun_path, path);
	unlink(path);
	listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&address, sizeof address) || listen(listen_fd, BACKLOG))
		die("can't listen on %s: %s", path, strerror(errno));
	watch_fd(listen_fd, LISTENER);
}

/* Signals arrive through a descriptor: a handler could run just before epoll_wait, and noticing that would need a
 * timeout in every turn. */
static void watch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	watch_fd(signalfd(-1, &set, SFD_CLOEXEC), SIGNALS);
}

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 5)
		die("usage: broker SOCKET WINDOW WORKERS [SECONDS]");
	pin_from_env();
	window = (uint32_t)number("WINDOW", argv[2], 1, MAX_WINDOW);
	wanted_workers = (uint32_t)number("WORKERS", argv[3], 1, MAX_CONNS);
	for (int i = 0; i < MAX_CONNS; i++)
		conns[i].fd = -1;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	listen_on(argv[1]);
	watch_signals();
	if (argc == 5)
		alarm((unsigned)number("SECONDS", argv[4], 1, 3600));
	while (!stop)
		turn();
	unlink(argv[1]);
	report();
	return 0;
}
