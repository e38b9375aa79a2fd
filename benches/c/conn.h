/* One connection of the reference broker: its buffers, and for a worker what it was lent. */
#ifndef STOKER_BENCH_CONN_H
#define STOKER_BENCH_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "io.h"

enum { MAX_CONNS = 256, MAX_WINDOW = 64, OUT_BUFFER = 1024 * 1024 };

/* A request that a worker holds: whose it is and under which id its client knows it. */
struct lent {
	uint32_t client, generation, id;
};

enum role { STRANGER, CLIENT, WORKER };

struct conn {
	int fd; /* -1 = free */
	enum role role;
	uint32_t generation; /* tells who uses this slot now from who used it before */
	bool dirty;          /* stands in the list of those to write to at the end of the turn */
	bool blocked;        /* the socket took no more; epoll tells when it does */

	/* Worker: it holds the ids oldest .. next-1. One-slot workers answer in order, so a ring does. */
	uint32_t oldest, next;
	struct lent lent[MAX_WINDOW];

	struct inbuf in;
	size_t out_len;
	uint8_t out[OUT_BUFFER];
};

static inline uint32_t conn_holds(const struct conn *c)
{
	return c->next - c->oldest;
}

static inline struct lent *conn_lent(struct conn *c, uint32_t id)
{
	return &c->lent[id % MAX_WINDOW];
}

static inline bool conn_has_room(const struct conn *c, uint32_t size)
{
	return OUT_BUFFER - c->out_len >= size;
}

#endif
