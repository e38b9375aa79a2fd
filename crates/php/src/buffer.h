/* A growable array of bytes. */
#ifndef STOKER_BUFFER_H
#define STOKER_BUFFER_H

#include <stddef.h>

struct buffer {
    char *bytes;
    size_t len, size;
};

/* Appends bytes. Ends the process if there is no memory. */
void buffer_add(struct buffer *buffer, const void *bytes, size_t len);
/* Appends a string without its final NUL. */
void buffer_text(struct buffer *buffer, const char *text);
/* Appends a formatted text without its final NUL. */
void buffer_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a string of JSON with its quotes. Bytes that are not UTF-8 are replaced by "?". */
void buffer_json(struct buffer *buffer, const char *text, size_t len);
/* Makes room for `more` bytes after the current ones. */
void buffer_reserve(struct buffer *buffer, size_t more);
/* Removes bytes from the beginning. */
void buffer_skip(struct buffer *buffer, size_t len);
/* Removes all bytes. Memory that only a large content needed is freed. */
void buffer_reset(struct buffer *buffer);
/* Frees the memory. */
void buffer_free(struct buffer *buffer);

#endif
