/* Measures how long a server leaves a PING unanswered: the lag of its event loop plus the round trip.
 *
*   ping SOCKET SECONDS [INTERVAL_US]        env: PIN=cpu, RT=1 for real-time priority
 *
 * PINGs are sent on a fixed clock that does not wait for PONGs, so a stall counts once for each PING that was due
 * during it. Prints {"pings","unanswered","p50_us","p99_us","max_us","late_p99_us","late_max_us"}; `late` is the
 * delay of this program's own wake-ups, which the machine causes, not the server. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "io.h"

enum { PATIENCE_MS = 2000 };

struct pings {
	int fd;
	uint32_t total, sent, answered;
	uint64_t start, interval;
	uint64_t *sent_at;
	double *took_us, *late_us;
};

static struct inbuf in;

static void send_due(struct pings *p)
{
	uint8_t frame[HEADER];
	uint64_t now = now_ns(), due = p->start + p->sent * p->interval;
	struct frame f = {.type = PING, .id = p->sent + 1};

	if (p->sent == p->total || now < due)
		return;
	p->late_us[p->sent] = (double)(now - due) / 1e3;
	p->sent_at[p->sent++] = now;
	frame_simple(frame, &f, "", 0);
	if (!write_all(p->fd, frame, sizeof frame))
		die("the broker closed the connection");
}

static void read_pongs(struct pings *p)
{
	struct frame f;
	int got;

	if (inbuf_read(&in, p->fd) <= 0)
		die("the broker closed the connection");
	while ((got = inbuf_next(&in, &f)) > 0) {
		if (f.type != PONG || f.id == 0 || f.id > p->sent)
			die("expected a PONG, got type %u, id %u", f.type, f.id);
		p->took_us[p->answered++] = (double)(now_ns() - p->sent_at[f.id - 1]) / 1e3;
	}
	if (got < 0)
		die("the broker does not speak the wire");
}

/* Waits for a PONG until the next PING is due, or at most PATIENCE_MS for the last PONGs; returns false if no more
 * can come. */
static bool wait_turn(struct pings *p)
{
	struct pollfd poll_fd = {.fd = p->fd, .events = POLLIN};
	struct timespec timeout = {.tv_sec = PATIENCE_MS / 1000};
	uint64_t now = now_ns(), due = p->start + p->sent * p->interval;
	int n;

	if (p->sent < p->total) {
		uint64_t left = due > now ? due - now : 0;

		timeout.tv_sec = (time_t)(left / 1000000000u);
		timeout.tv_nsec = (long)(left % 1000000000u);
	}
	n = ppoll(&poll_fd, 1, &timeout, NULL);
	if (n < 0 && errno != EINTR)
		die("poll: %s", strerror(errno));
	if (n > 0)
		read_pongs(p);
	return n > 0 || p->sent < p->total;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double at(const double *sorted, uint32_t n, double share)
{
	return n ? sorted[(uint32_t)((n - 1) * share)] : 0;
}

static void report(struct pings *p)
{
	qsort(p->took_us, p->answered, sizeof(double), compare);
	qsort(p->late_us, p->sent, sizeof(double), compare);
	printf("{\"pings\":%u,\"unanswered\":%u,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,"
	       "\"late_p99_us\":%.1f,\"late_max_us\":%.1f}\n",
	       p->sent, p->sent - p->answered, at(p->took_us, p->answered, 0.5), at(p->took_us, p->answered, 0.99),
	       at(p->took_us, p->answered, 1), at(p->late_us, p->sent, 0.99), at(p->late_us, p->sent, 1));
}

/* Without real-time priority this would measure a machine full of dying and booting workers, not the server. Needs a
 * privilege. */
static void run_first(void)
{
	struct sched_param param = {.sched_priority = 1};

	if (getenv("RT") && sched_setscheduler(0, SCHED_FIFO, &param))
		fprintf(stderr, "ping: no real-time priority: %s\n", strerror(errno));
}

int main(int argc, char **argv)
{
	struct pings p = {0};
	uint8_t hello[MAX_HELLO];
	struct frame f;
	uint64_t seconds;

	if (argc != 3 && argc != 4)
		die("usage: ping SOCKET SECONDS [INTERVAL_US]");
	pin_from_env();
	seconds = (uint64_t)number("SECONDS", argv[2], 1, 3600);
	p.interval = 1000 * (uint64_t)(argc == 4 ? number("INTERVAL_US", argv[3], 10, 1000000) : 1000);
	p.total = (uint32_t)(seconds * 1000000000u / p.interval);
	p.sent_at = calloc(p.total, sizeof *p.sent_at);
	p.took_us = calloc(p.total, sizeof *p.took_us);
	p.late_us = calloc(p.total, sizeof *p.late_us);
	if (!p.sent_at || !p.took_us || !p.late_us)
		die("out of memory");
	p.fd = dial(argv[1]);
	if (!write_all(p.fd, hello, hello_client(hello)))
		die("the broker closed the connection");
	read_frame(&in, p.fd, &f);
	expect_welcome(&f);
	run_first();
	p.start = now_ns();
	do
		send_due(&p);
	while (p.answered < p.total && wait_turn(&p));
	report(&p);
	return p.answered == p.total ? 0 : 1;
}
