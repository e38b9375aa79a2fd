/* The request message of a task: docs/reference/protocol.md, section 11. */
#ifndef STOKER_MESSAGE_H
#define STOKER_MESSAGE_H

#include "buffer.h"
#include <stdbool.h>
#include <stdint.h>

#define MESSAGE_MAX_FIELDS 100
/* The largest size of all header fields, and of the request line, in bytes. */
#define MESSAGE_MAX_HEAD (64 << 10)

struct message_field {
    char *name, *value;
    size_t value_len;
};

/* A parsed request. Its strings lie in the bytes that were parsed. */
struct message {
    bool is_https;
    char *method, *version;
    /* Host and port as the client sent them, with its length, because the rest of the target follows. */
    char *authority;
    size_t authority_len;
    /* Path and query as the client sent them; begins with "/" or "?", or is empty. */
    char *rest;
    struct message_field fields[MESSAGE_MAX_FIELDS];
    size_t field_count;
    /* -1 if the request does not state it. */
    int64_t content_length;
    char *body;
    size_t body_len;
};

/* Parses a message, which is followed by a NUL, and writes the ends of its strings into it. Returns NULL, or why it is invalid. */
const char *message_parse(struct message *message, char *bytes, size_t len);
/* The first field with this name in lower case; NULL if there is none. */
const struct message_field *message_find(const struct message *message, const char *name);
/* Whether a byte may be part of a token of RFC 9110, such as the name of a field. */
bool message_is_token(char byte);

#endif
