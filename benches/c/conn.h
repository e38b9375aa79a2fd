/* One connection of the reference server: its buffers and, for a worker, the requests assigned to it. */
#ifndef STOKER_BENCH_CONN_H
#define STOKER_BENCH_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "io.h"

enum { MAX_CONNS = 256, MAX_WINDOW = 64, OUT_BUFFER = 1024 * 1024 };

/* A request assigned to a worker: its client, and the id under which the client knows it. */
struct assigned {
	uint32_t client, generation, id;
};

enum role { STRANGER, CLIENT, WORKER };

struct conn {
	int fd; /* -1 = free */
	enum role role;
	uint32_t generation; /* distinguishes the current user of this slot from earlier ones */
	bool dirty;          /* is in the list of connections to write to at the end of the turn */
	bool blocked;        /* the socket accepted no more bytes; EPOLLOUT reports when it does */

	/* Worker: its requests have the ids oldest .. next-1. Workers with one slot answer in order, so a ring is enough. */
	uint32_t oldest, next;
	struct assigned assigned[MAX_WINDOW];

	struct inbuf in;
	size_t out_len;
	uint8_t out[OUT_BUFFER];
};

static inline uint32_t conn_holds(const struct conn *c)
{
	return c->next - c->oldest;
}

static inline struct assigned *conn_assigned(struct conn *c, uint32_t id)
{
	return &c->assigned[id % MAX_WINDOW];
}

static inline bool conn_has_room(const struct conn *c, uint32_t size)
{
	return OUT_BUFFER - c->out_len >= size;
}

#endif
