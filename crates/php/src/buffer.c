/* A growable array of bytes. */
#include "buffer.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How much memory an empty buffer keeps, in bytes. */
#define KEPT (256 << 10)

void buffer_reserve(struct buffer *buffer, size_t more)
{
    size_t needed = buffer->len + more;
    if (needed <= buffer->size)
        return;
    size_t size = buffer->size ? buffer->size : 512;
    while (size < needed)
        size *= 2;
    buffer->bytes = realloc(buffer->bytes, size);
    if (!buffer->bytes) {
        fputs("stoker-php: out of memory\n", stderr);
        _Exit(1);
    }
    buffer->size = size;
}

void buffer_add(struct buffer *buffer, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    buffer_reserve(buffer, len);
    memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
}

void buffer_text(struct buffer *buffer, const char *text)
{
    buffer_add(buffer, text, strlen(text));
}

void buffer_format(struct buffer *buffer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int len = vsnprintf(NULL, 0, format, list);
    va_end(list);
    buffer_reserve(buffer, (size_t)len + 1);
    va_start(list, format);
    vsnprintf(buffer->bytes + buffer->len, (size_t)len + 1, format, list);
    va_end(list);
    buffer->len += (size_t)len;
}

/* The length of the UTF-8 sequence at `text`, 0 if it is invalid. */
static size_t sequence(const unsigned char *text, size_t len)
{
    unsigned char first = text[0];
    size_t size = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3
                                                     : first >= 0xf0 && first < 0xf5 ? 4 : 0;
    if (size == 0 || size > len)
        return 0;
    for (size_t at = 1; at < size; at++)
        if ((text[at] & 0xc0) != 0x80)
            return 0;
    int is_overlong = (first == 0xe0 && text[1] < 0xa0) || (first == 0xf0 && text[1] < 0x90);
    int is_outside = (first == 0xed && text[1] > 0x9f) || (first == 0xf4 && text[1] > 0x8f);
    return is_overlong || is_outside ? 0 : size;
}

void buffer_json(struct buffer *buffer, const char *text, size_t len)
{
    buffer_add(buffer, "\"", 1);
    for (size_t at = 0, size; at < len; at += size) {
        unsigned char byte = (unsigned char)text[at];
        size = sequence((const unsigned char *)text + at, len - at);
        if (size == 0) {
            size = 1;
            buffer_add(buffer, "?", 1);
        } else if (byte == '"' || byte == '\\') {
            buffer_format(buffer, "\\%c", byte);
        } else if (byte < 0x20) {
            buffer_format(buffer, "\\u%04x", byte);
        } else {
            buffer_add(buffer, text + at, size);
        }
    }
    buffer_add(buffer, "\"", 1);
}

void buffer_skip(struct buffer *buffer, size_t len)
{
    buffer->len -= len;
    if (buffer->len > 0)
        memmove(buffer->bytes, buffer->bytes + len, buffer->len);
}

void buffer_reset(struct buffer *buffer)
{
    buffer->len = 0;
    if (buffer->size > KEPT)
        buffer_free(buffer);
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}
