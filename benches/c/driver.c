/* The reference for "hello jobs through PHP": sends jobs to workers as fast as they accept them, and does nothing else.
 *
 *   driver WORKERS BATCH JOBS COMMAND [ARGUMENT...]        env: PIN=cpu (for the driver and its workers)
 *
 * Each worker inherits a socket (STOKER_FD). It is sent BATCH jobs of queue "bench" in one write, and the next batch
 * when all of them are answered. The clock runs from the first batch after a warm-up to the last answer. Prints
 * {"workers","batch","jobs","failed","seconds","jobs_per_s"}. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "io.h"

enum {
	MAX_WORKERS = 64,
	MAX_BATCH = 256,
	JOB_META = 2 + 16 + 2 + 8, /* job id, created at */
	MAX_JOB = 128,
	BOOT_SECONDS = 10,
	SILENCE_SECONDS = 30, /* after this time without an answer, something is wrong */
	EXIT_SECONDS = 2,
};

static const char QUEUE[] = "bench";
static const char BODY[] = "{\"hello\":\"world\"}";

struct worker {
	int fd;
	pid_t pid;
	uint32_t next_id, open;
	uint8_t batch[MAX_BATCH * MAX_JOB];
	struct inbuf in;
};

static struct worker workers[MAX_WORKERS];
static uint32_t n_workers, batch_size, job_size;
static uint64_t to_send, answered, failed;

/* ---- workers ---- */

static void become_worker(int fd, char **command)
{
	char number_of_fd[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the workers end when the driver ends, however it ends */
	snprintf(number_of_fd, sizeof number_of_fd, "%d", fd);
	setenv("STOKER_FD", number_of_fd, 1);
	setenv("STOKER_WORKER", "bench-1", 1);
	fcntl(fd, F_SETFD, 0);
	execvp(command[0], command);
	fprintf(stderr, "driver: can't start %s: %s\n", command[0], strerror(errno));
	_exit(127);
}

static void spawn(struct worker *w, char **command)
{
	struct timeval patience = {.tv_sec = BOOT_SECONDS};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		die("socketpair: %s", strerror(errno));
	w->pid = fork();
	if (w->pid < 0)
		die("fork: %s", strerror(errno));
	if (w->pid == 0)
		become_worker(pair[1], command);
	close(pair[1]);
	w->fd = pair[0];
	setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static void greet(struct worker *w)
{
	static const char json[] = "{\"v\":1,\"max_frame\":16777215,\"max_inflight\":1024,"
				   "\"worker\":\"bench-1\",\"pool\":\"bench\",\"version\":\"1\"}";
	uint8_t welcome[256];
	struct frame f;

	read_frame(&w->in, w->fd, &f);
	if (f.type != HELLO)
		die("expected HELLO, got type %u", f.type);
	if (!write_all(w->fd, welcome, frame_json(welcome, WELCOME, json)))
		die("a worker has gone");
}

/* Stops a worker as a server does: GOAWAY and a half-closed socket, then SIGKILL if it still runs after
 * EXIT_SECONDS. */
static void dismiss(struct worker *w)
{
	uint8_t goaway[HEADER];
	uint64_t end = now_ns() + EXIT_SECONDS * 1000000000ull;

	frame_json(goaway, GOAWAY, "");
	if (write_all(w->fd, goaway, sizeof goaway))
		shutdown(w->fd, SHUT_WR);
	while (waitpid(w->pid, NULL, WNOHANG) == 0) {
		if (now_ns() > end) {
			fprintf(stderr, "driver: worker %d did not leave, killing it\n", w->pid);
			kill(w->pid, SIGKILL);
			waitpid(w->pid, NULL, 0);
			break;
		}
		poll(NULL, 0, 10);
	}
	close(w->fd);
}

/* ---- jobs ---- */

/* All jobs of the batch have the same bytes except for their two ids. */
static void prepare(struct worker *w)
{
	struct frame f = {.type = REQ, .code = JSON, .prio = DEFAULT_PRIORITY};
	struct timespec t;
	uint64_t created_ms;

	clock_gettime(CLOCK_REALTIME, &t);
	created_ms = (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
	f.name_len = sizeof QUEUE - 1;
	f.meta_len = JOB_META;
	for (uint32_t i = 0; i < batch_size; i++) {
		uint8_t *at = w->batch + i * job_size, *meta = at + HEADER + f.name_len;

		frame_header(at, &f, sizeof BODY - 1);
		memcpy(at + HEADER, QUEUE, f.name_len);
		meta[0] = META_JOB_ID;
		meta[1] = 16;
		if (getrandom(meta + 2, 16, 0) != 16)
			die("getrandom: %s", strerror(errno));
		meta[18] = META_CREATED_AT;
		meta[19] = 8;
		put32(meta + 20, (uint32_t)(created_ms >> 32));
		put32(meta + 24, (uint32_t)created_ms);
		memcpy(meta + JOB_META, BODY, sizeof BODY - 1);
	}
	w->next_id = 1;
}

static void send_batch(struct worker *w)
{
	uint32_t n = to_send < batch_size ? (uint32_t)to_send : batch_size;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at = w->batch + i * job_size;

		frame_set_id(at, w->next_id + i);
		/* The job's own id must differ too, because an SDK may detect repeated jobs. */
		put32(at + HEADER + sizeof QUEUE - 1 + 2, w->next_id + i);
	}
	w->next_id += n;
	w->open = n;
	to_send -= n;
	if (n && !write_all(w->fd, w->batch, (size_t)n * job_size))
		die("a worker has gone");
}

static void take_answers(struct worker *w)
{
	struct frame f;
	int got;
	ssize_t n = inbuf_read(&w->in, w->fd);

	if (n <= 0)
		die("a worker has gone");
	while ((got = inbuf_next(&w->in, &f)) > 0) {
		if (f.type != RES)
			continue; /* an EVENT, for example a log line */
		if (w->open == 0 || f.id != w->next_id - w->open)
			die("a worker answered %u with status %u, which it does not hold: %.*s", f.id, f.code,
			    (int)frame_body_len(&f), frame_body(&f));
		w->open--;
		answered++;
		failed += f.code != OK;
	}
	if (got < 0)
		die("a worker does not speak the wire");
}

static void run(uint64_t jobs)
{
	struct pollfd fds[MAX_WORKERS];

	to_send = jobs;
	answered = failed = 0;
	for (uint32_t i = 0; i < n_workers; i++) {
		fds[i].fd = workers[i].fd;
		fds[i].events = POLLIN;
		send_batch(&workers[i]);
	}
	while (answered < jobs) {
		int n = poll(fds, n_workers, SILENCE_SECONDS * 1000);

		if (n < 0 && errno != EINTR)
			die("poll: %s", strerror(errno));
		if (n == 0)
			die("no answer for %d s", SILENCE_SECONDS);
		for (uint32_t i = 0; i < n_workers && n > 0; i++) {
			if (!fds[i].revents)
				continue;
			take_answers(&workers[i]);
			if (workers[i].open == 0)
				send_batch(&workers[i]);
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t jobs, start;
	double seconds;

	if (argc < 5)
		die("usage: driver WORKERS BATCH JOBS COMMAND [ARGUMENT...]");
	pin_from_env();
	n_workers = (uint32_t)number("WORKERS", argv[1], 1, MAX_WORKERS);
	batch_size = (uint32_t)number("BATCH", argv[2], 1, MAX_BATCH);
	jobs = (uint64_t)number("JOBS", argv[3], 1, 1000000000);
	job_size = HEADER + sizeof QUEUE - 1 + JOB_META + sizeof BODY - 1;
	for (uint32_t i = 0; i < n_workers; i++) {
		spawn(&workers[i], argv + 4);
		prepare(&workers[i]);
	}
	for (uint32_t i = 0; i < n_workers; i++)
		greet(&workers[i]);
	if (jobs > 1000)
		run(jobs / 10); /* warm-up, which a few slow jobs do not need */
	start = now_ns();
	run(jobs);
	seconds = (double)(now_ns() - start) / 1e9;
	printf("{\"workers\":%u,\"batch\":%u,\"jobs\":%lu,\"failed\":%lu,\"seconds\":%.6f,\"jobs_per_s\":%.0f}\n",
	       n_workers, batch_size, jobs, failed, seconds, (double)jobs / seconds);
	for (uint32_t i = 0; i < n_workers; i++)
		dismiss(&workers[i]);
	return failed ? 1 : 0;
}
