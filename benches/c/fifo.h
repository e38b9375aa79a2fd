/* The requests that wait for a worker: whole frames in a ring of bytes, first in, first out. */
#ifndef STOKER_BENCH_FIFO_H
#define STOKER_BENCH_FIFO_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "frame.h"

enum { FIFO_SIZE = 16 * 1024 * 1024, FIFO_ALIGN = 8 };

struct waiting {
	uint32_t size; /* of the frame; 0 = unused, continue at the start of the ring */
	uint32_t client, generation;
	uint32_t unused; /* keeps the frame aligned */
	uint8_t frame[];
};

struct fifo {
	size_t head, tail; /* start of the oldest entry; where the next one is written */
	size_t used;
	_Alignas(16) uint8_t ring[FIFO_SIZE];
};

static inline size_t fifo_room_for(uint32_t frame_size)
{
	return (sizeof(struct waiting) + frame_size + FIFO_ALIGN - 1) & ~(size_t)(FIFO_ALIGN - 1);
}

/* Returns false if the ring is full. An entry is never split: one that does not fit before the end is put at the
 * start. */
static inline bool fifo_push(struct fifo *q, uint32_t client, uint32_t generation, const struct frame *f)
{
	size_t need = fifo_room_for(f->size), to_end = FIFO_SIZE - q->tail;
	bool wrap = to_end < need;
	struct waiting *w;

	if (q->used + (wrap ? to_end : 0) + need > FIFO_SIZE)
		return false;
	if (wrap) {
		if (to_end >= sizeof *w)
			((struct waiting *)(q->ring + q->tail))->size = 0;
		q->used += to_end;
		q->tail = 0;
	}
	w = (struct waiting *)(q->ring + q->tail);
	w->size = f->size;
	w->client = client;
	w->generation = generation;
	memcpy(w->frame, f->bytes, f->size);
	q->tail += need;
	q->used += need;
	return true;
}

/* Returns the oldest entry, or NULL. The entry is valid until fifo_pop(). */
static inline const struct waiting *fifo_peek(struct fifo *q)
{
	const struct waiting *w;

	if (!q->used)
		return NULL;
	w = (const struct waiting *)(q->ring + q->head);
	if (FIFO_SIZE - q->head < sizeof *w || w->size == 0) {
		q->used -= FIFO_SIZE - q->head;
		q->head = 0;
		w = (const struct waiting *)q->ring;
	}
	return w;
}

static inline void fifo_pop(struct fifo *q, const struct waiting *w)
{
	size_t room = fifo_room_for(w->size);

	q->head += room;
	q->used -= room;
	/* An empty ring restarts at 0, so that light load always uses the same warm cache lines. */
	if (!q->used)
		q->head = q->tail = 0;
}

#endif
