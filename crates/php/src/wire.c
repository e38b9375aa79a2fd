/* Frames of the wire protocol, version 1: docs/reference/protocol.md. */
#include "wire.h"
#include <string.h>

static uint16_t u16(const char *bytes)
{
    const uint8_t *at = (const uint8_t *)bytes;
    return (uint16_t)(at[0] << 8 | at[1]);
}

uint32_t wire_u32(const char *bytes)
{
    return (uint32_t)u16(bytes) << 16 | u16(bytes + 2);
}

static void put_u16(char *to, uint16_t value)
{
    to[0] = (char)(value >> 8);
    to[1] = (char)value;
}

static void put_u32(char *to, uint32_t value)
{
    put_u16(to, (uint16_t)(value >> 16));
    put_u16(to + 2, (uint16_t)value);
}

int64_t wire_length(const char *bytes, size_t len)
{
    if (len < 4)
        return 0;
    uint32_t rest = wire_u32(bytes);
    return rest < WIRE_HEADER - 4 || rest > WIRE_MAX ? -1 : (int64_t)rest + 4;
}

/* Whether a key is in the metadata twice, or malformed. */
static bool is_meta_valid(const char *meta, size_t len)
{
    uint8_t seen[256] = {0};
    struct wire_entry entry;
    size_t at = 0;
    while (wire_next(meta, len, &at, &entry))
        if (seen[entry.key]++)
            return false;
    return at == len;
}

static bool is_name_valid(const char *name, size_t len)
{
    static const char others[] = "_.:/@-";
    for (size_t at = 0; at < len; at++) {
        char byte = name[at];
        bool is_alphanumeric = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
        if (!is_alphanumeric && (byte == 0 || !strchr(others, byte)))
            return false;
    }
    return true;
}

bool wire_parse(const char *bytes, size_t len, struct wire_frame *frame)
{
    const uint8_t *at = (const uint8_t *)bytes;
    *frame = (struct wire_frame){
        .type = at[4], .flags = at[5], .code = at[6], .prio = at[7], .id = wire_u32(bytes + 8), .ttl = wire_u32(bytes + 12),
        .meta_len = u16(bytes + 16), .name_len = at[18], .attempt = at[19], .name = bytes + WIRE_HEADER,
    };
    size_t head = (size_t)WIRE_HEADER + frame->name_len + frame->meta_len;
    if (head > len)
        return false;
    frame->meta = frame->name + frame->name_len;
    frame->body = bytes + head;
    frame->body_len = len - head;
    if (frame->type == WIRE_READY && (frame->id != 0 || frame->ttl > 1))
        return false;
    bool has_parts = frame->type == WIRE_RES || frame->type == WIRE_DATA;
    return frame->type >= WIRE_REQ && frame->type <= WIRE_STARTED && !(frame->flags & WIRE_RESERVED)
        && (has_parts || !(frame->flags & WIRE_MORE)) && (frame->type == WIRE_REQ) == (frame->name_len > 0)
        && is_name_valid(frame->name, frame->name_len) && is_meta_valid(frame->meta, frame->meta_len);
}

void wire_head(struct buffer *buffer, const struct wire_frame *frame)
{
    char head[WIRE_HEADER];
    put_u32(head, (uint32_t)(WIRE_HEADER - 4 + frame->name_len + frame->meta_len + frame->body_len));
    head[4] = (char)frame->type;
    head[5] = (char)frame->flags;
    head[6] = (char)frame->code;
    head[7] = (char)frame->prio;
    put_u32(head + 8, frame->id);
    put_u32(head + 12, frame->ttl);
    put_u16(head + 16, frame->meta_len);
    head[18] = (char)frame->name_len;
    head[19] = (char)frame->attempt;
    buffer_add(buffer, head, sizeof head);
    buffer_add(buffer, frame->name, frame->name_len);
    buffer_add(buffer, frame->meta, frame->meta_len);
}

bool wire_next(const char *meta, size_t len, size_t *at, struct wire_entry *entry)
{
    size_t left = len - *at;
    if (left == 0)
        return false;
    const uint8_t *bytes = (const uint8_t *)meta + *at;
    size_t head = left >= 2 && bytes[1] == 255 ? 4 : 2;
    if (left < head)
        goto malformed;
    entry->key = bytes[0];
    entry->len = head == 4 ? u16(meta + *at + 2) : bytes[1];
    entry->value = meta + *at + head;
    if (entry->key == 0 || entry->key == 255 || left - head < entry->len)
        goto malformed;
    *at += head + entry->len;
    return true;
malformed:
    *at = SIZE_MAX;
    return false;
}

bool wire_find(const char *meta, size_t len, uint8_t key, struct wire_entry *entry)
{
    for (size_t at = 0; wire_next(meta, len, &at, entry);)
        if (entry->key == key)
            return true;
    return false;
}

void wire_entry(struct buffer *meta, uint8_t key, const void *value, size_t len)
{
    char head[4] = {(char)key, (char)(len < 255 ? len : 255)};
    put_u16(head + 2, (uint16_t)len);
    buffer_add(meta, head, len < 255 ? 2 : 4);
    buffer_add(meta, value, len);
}
