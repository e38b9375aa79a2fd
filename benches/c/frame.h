/* Version 1 of the wire protocol (docs/reference/protocol.md), as far as the benchmarks need it: the 20-byte header
 * and HELLO. */
#ifndef STOKER_BENCH_FRAME_H
#define STOKER_BENCH_FRAME_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	HEADER = 20,
	LEN_FIELD = 4,       /* `len` does not count itself ... */
	REST_OF_HEADER = 16, /* ... but it does count the rest of the header */
	MAX_NAME = 255,
	MAX_HELLO = 1024,
};

enum frame_type { REQ = 1, RES = 2, CANCEL = 3, HELLO = 4, WELCOME = 5, PING = 7, PONG = 8, GOAWAY = 9 };
enum frame_flag { ONEWAY = 0x08, IDEMPOTENT = 0x10, NOT_PROCESSED = 0x40 };
enum status { OK = 0, INVALID_ARGUMENT = 3, RESOURCE_EXHAUSTED = 8, WORKER_DIED = 33 };
enum codec { RAW = 0, JSON = 1 };
enum meta_key { META_JOB_ID = 16, META_CREATED_AT = 27 };
enum { DEFAULT_PRIORITY = 3 };

/* Offsets of the two fields that a server rewrites when it forwards a frame. */
enum { OFFSET_ID = 8, OFFSET_TTL = 12 };

struct frame {
	uint8_t type, flags, code, prio;
	uint32_t id, ttl;
	uint16_t meta_len;
	uint8_t name_len, attempt;
	uint32_t size;        /* of the whole frame, header included */
	const uint8_t *bytes; /* the frame itself, in the buffer it was read into */
};

static inline void put16(uint8_t *at, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(at, &v, sizeof v);
}

static inline void put32(uint8_t *at, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(at, &v, sizeof v);
}

static inline uint16_t get16(const uint8_t *at)
{
	uint16_t v;
	memcpy(&v, at, sizeof v);
	return __builtin_bswap16(v);
}

static inline uint32_t get32(const uint8_t *at)
{
	uint32_t v;
	memcpy(&v, at, sizeof v);
	return __builtin_bswap32(v);
}

static inline void frame_set_id(uint8_t *frame, uint32_t id)
{
	put32(frame + OFFSET_ID, id);
}

static inline const uint8_t *frame_body(const struct frame *f)
{
	return f->bytes + HEADER + f->name_len + f->meta_len;
}

static inline uint32_t frame_body_len(const struct frame *f)
{
	return f->size - HEADER - f->name_len - f->meta_len;
}

/* Whether the metadata has an entry with this key. An entry is key, length, bytes; a length of 255 is followed by
 * the real length in two bytes. The search stops at the first entry that does not fit. */
static inline int frame_has_meta(const struct frame *f, uint8_t key)
{
	const uint8_t *at = f->bytes + HEADER + f->name_len, *end = at + f->meta_len;

	while (end - at >= 2) {
		uint32_t len = at[1], head = 2;

		if (at[0] == key)
			return 1;
		if (len == 255 && end - at < 4)
			return 0;
		if (len == 255) {
			len = get16(at + 2);
			head = 4;
		}
		if ((uint32_t)(end - at) < head + len)
			return 0;
		at += head + len;
	}
	return 0;
}

/* Writes the header of `f` for a body of `body_len` bytes; returns the size of the whole frame. */
static inline uint32_t frame_header(uint8_t *at, const struct frame *f, uint32_t body_len)
{
	uint32_t len = REST_OF_HEADER + f->name_len + f->meta_len + body_len;

	put32(at, len);
	at[4] = f->type;
	at[5] = f->flags;
	at[6] = f->code;
	at[7] = f->prio;
	put32(at + OFFSET_ID, f->id);
	put32(at + OFFSET_TTL, f->ttl);
	put16(at + 16, f->meta_len);
	at[18] = f->name_len;
	at[19] = f->attempt;
	return LEN_FIELD + len;
}

/* Writes a frame without name and metadata; returns its size. */
static inline uint32_t frame_simple(uint8_t *at, const struct frame *f, const void *body, uint32_t body_len)
{
	uint32_t size = frame_header(at, f, body_len);

	memcpy(at + HEADER, body, body_len);
	return size;
}

/* Parses the frame at the start of `have` bytes: 1 = complete, 0 = more bytes are needed, -1 = these bytes cannot
 * start a frame of at most `max` bytes. */
static inline int frame_parse(const uint8_t *at, size_t have, size_t max, struct frame *f)
{
	uint32_t len;

	if (have < LEN_FIELD)
		return 0;
	len = get32(at);
	if (len < REST_OF_HEADER || len > max - LEN_FIELD)
		return -1;
	if (have < HEADER)
		return 0;
	f->size = LEN_FIELD + len;
	f->meta_len = get16(at + 16);
	f->name_len = at[18];
	if ((uint32_t)f->name_len + f->meta_len > len - REST_OF_HEADER)
		return -1;
	if (have < f->size)
		return 0;
	f->type = at[4];
	f->flags = at[5];
	f->code = at[6];
	f->prio = at[7];
	f->id = get32(at + OFFSET_ID);
	f->ttl = get32(at + OFFSET_TTL);
	f->attempt = at[19];
	f->bytes = at;
	return 1;
}

static inline uint32_t frame_json(uint8_t *at, enum frame_type type, const char *json)
{
	struct frame f = {.type = type};

	return frame_simple(at, &f, json, strlen(json));
}

/* hello_client and hello_worker need a buffer of MAX_HELLO bytes and return the size of the frame. */
static inline uint32_t hello_client(uint8_t *at)
{
	char json[256];

	snprintf(json, sizeof json, "{\"v\":[1],\"role\":\"client\",\"name\":\"bench client\",\"pid\":%d}", getpid());
	return frame_json(at, HELLO, json);
}

/* `tasks`: the number of tasks that the worker takes in its life, 0 = unlimited. */
static inline uint32_t hello_worker(uint8_t *at, int idempotent, long tasks)
{
	char json[512], bound[32] = "";

	if (tasks)
		snprintf(bound, sizeof bound, ",\"tasks\":%ld", tasks);

	snprintf(json, sizeof json,
		 "{\"v\":[1],\"role\":\"worker\",\"name\":\"bench worker\",\"pid\":%d,\"pool\":\"bench\",\"slots\":1,"
		 "\"calls\":[\"bench.echo\"],\"idempotent\":[%s],\"jobs\":[\"bench\"]%s}",
		 getpid(), idempotent ? "\"bench.echo\"" : "", bound);
	return frame_json(at, HELLO, json);
}

#endif
