/* Frames of the wire protocol, version 1: docs/reference/protocol.md. */
#ifndef STOKER_WIRE_H
#define STOKER_WIRE_H

#include "buffer.h"
#include <stdbool.h>
#include <stdint.h>

#define WIRE_HEADER 20
/* The largest value of a frame's length field. */
#define WIRE_MAX 0xffffff

enum wire_type {
    WIRE_REQ = 1, WIRE_RES, WIRE_CANCEL, WIRE_HELLO, WIRE_WELCOME, WIRE_READY, WIRE_PING, WIRE_PONG, WIRE_GOAWAY,
    WIRE_DATA, WIRE_CREDIT, WIRE_EVENT, WIRE_STARTED,
};

enum wire_flag { WIRE_MORE = 0x01, WIRE_RESERVED = 0x06, WIRE_CRITICAL = 0x80 };

enum wire_codec { WIRE_RAW = 0, WIRE_HTTP = 5 };

enum wire_status {
    WIRE_OK = 0, WIRE_CANCELLED = 1, WIRE_INVALID_ARGUMENT = 3, WIRE_UNIMPLEMENTED = 12, WIRE_RETRY = 48,
    WIRE_EXCEPTION = 64,
};

enum wire_kind { WIRE_LOG = 1, WIRE_LAST_WORDS = 4 };

enum wire_key {
    WIRE_FAIRNESS = 5, WIRE_ERROR_CLASS = 14, WIRE_JOB_ID = 16, WIRE_TRIES = 19, WIRE_TIMEOUT = 22, WIRE_CRASHES = 25,
    WIRE_ERROR_PLACE = 26, WIRE_CREATED_AT = 27, WIRE_CLIENT_ADDRESS = 38, WIRE_SCRIPT = 39,
    WIRE_DOCUMENT_ROOT = 40, WIRE_BODY_FILE = 41, WIRE_PARTS_CREDIT = 42, WIRE_ANSWER_DIRECTORY = 44,
    WIRE_LAST_KEY = 44, WIRE_FIRST_OF_USER = 0x80,
};

struct wire_frame {
    uint8_t type, flags, code, prio, attempt, name_len;
    uint32_t id, ttl;
    uint16_t meta_len;
    size_t body_len;
    const char *name, *meta, *body;
};

/* The length of the frame at the beginning of `bytes`; 0 if it is not known yet, -1 if it is not permitted. */
int64_t wire_length(const char *bytes, size_t len);
/* Parses a whole frame of wire_length() bytes. Returns false if it is malformed. */
bool wire_parse(const char *bytes, size_t len, struct wire_frame *frame);
/* Appends the header, name and metadata of a frame whose body of `body_len` bytes follows. */
void wire_head(struct buffer *buffer, const struct wire_frame *frame);

/* An entry of a frame's metadata. */
struct wire_entry {
    uint8_t key;
    uint16_t len;
    const char *value;
};

/* Reads the entry at `*at` and moves `*at` behind it. Returns false at the end, and sets `*at` to SIZE_MAX if the metadata is
 * malformed. */
bool wire_next(const char *meta, size_t len, size_t *at, struct wire_entry *entry);
/* Finds an entry in valid metadata. */
bool wire_find(const char *meta, size_t len, uint8_t key, struct wire_entry *entry);
/* Appends an entry. */
void wire_entry(struct buffer *meta, uint8_t key, const void *value, size_t len);
/* A big-endian integer. */
uint32_t wire_u32(const char *bytes);

#endif
