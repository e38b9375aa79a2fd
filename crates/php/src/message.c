/* Parses the request message of a task. The gateway has checked what the client sent; what would shift the parts of the
 * message, or reach a program as something else, is checked again. */
#include "message.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool message_is_token(char byte)
{
    return isalnum((unsigned char)byte) || (byte && strchr("!#$%&'*+-.^_`|~", byte));
}

static bool is_token(const char *text)
{
    if (!*text)
        return false;
    while (*text)
        if (!message_is_token(*text++))
            return false;
    return true;
}

/* Ends the string at the next space, and returns what follows; NULL if there is no space. */
static char *split(char *text)
{
    char *space = strchr(text, ' ');
    if (!space)
        return NULL;
    *space = 0;
    return space + 1;
}

static bool parse_line(struct message *message, char *line)
{
    static const char versions[][9] = {"HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/3"};
    message->method = line;
    char *target = split(line);
    message->version = target ? split(target) : NULL;
    if (!message->version || strlen(message->method) > 32 || !is_token(message->method))
        return false;
    message->is_https = strncmp(target, "https://", 8) == 0;
    if (!message->is_https && strncmp(target, "http://", 7) != 0)
        return false;
    message->authority = target + (message->is_https ? 8 : 7);
    message->authority_len = strcspn(message->authority, "/?#");
    message->rest = message->authority + message->authority_len;
    for (size_t at = 0; at < message->authority_len; at++)
        if (!isalnum((unsigned char)message->authority[at]) && !strchr("-._~:[]%", message->authority[at]))
            return false;
    for (const char *at = message->rest; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f || *at == '#')
            return false;
    bool is_known = false;
    for (size_t at = 0; at < sizeof versions / sizeof *versions; at++)
        is_known |= strcmp(message->version, versions[at]) == 0;
    return is_known && message->authority_len > 0;
}

static bool parse_field(struct message_field *field, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon)
        return false;
    *colon = 0;
    field->name = line;
    field->value = colon + 1 + strspn(colon + 1, " \t");
    field->value_len = strlen(field->value);
    while (field->value_len > 0 && strchr(" \t", field->value[field->value_len - 1]))
        field->value[--field->value_len] = 0;
    return is_token(line);
}

static const char *parse_length(struct message *message)
{
    message->content_length = -1;
    const struct message_field *first = message_find(message, "content-length");
    if (!first)
        return NULL;
    size_t digits = strspn(first->value, "0123456789");
    bool is_valid = digits > 0 && digits < 18 && digits == first->value_len;
    for (size_t at = 0; at < message->field_count; at++) {
        const struct message_field *field = &message->fields[at];
        is_valid &= strcasecmp(field->name, "content-length") != 0 || strcmp(field->value, first->value) == 0;
    }
    if (!is_valid)
        return "its content-length is invalid";
    message->content_length = strtoll(first->value, NULL, 10);
    return NULL;
}

const char *message_parse(struct message *message, char *bytes, size_t len)
{
    message->field_count = 0;
    size_t searched = len < 2 * MESSAGE_MAX_HEAD + 4 ? len : 2 * MESSAGE_MAX_HEAD + 4;
    char *end = memmem(bytes, searched, "\r\n\r\n", 4);
    if (!end)
        return searched == len ? "its head does not end" : "its head is too long";
    if (memchr(bytes, 0, (size_t)(end - bytes)))
        return "its head contains a NUL";
    message->body = end + 4;
    message->body_len = len - (size_t)(message->body - bytes);
    end[2] = 0;
    char *line = bytes, *fields = NULL;
    while (*line) {
        char *line_end = strstr(line, "\r\n"), *next = line_end + 2;
        *line_end = 0;
        if (strpbrk(line, "\r\n"))
            return "a line does not end with CRLF";
        if (!fields) {
            fields = next;
            if (end + 2 - fields > MESSAGE_MAX_HEAD)
                return "its header fields are too long";
            if (!parse_line(message, line))
                return "it does not begin with the first line of a request (GET https://example.com/path HTTP/1.1)";
        } else if (message->field_count == MESSAGE_MAX_FIELDS) {
            return "it has more than 100 header fields";
        } else if (!parse_field(&message->fields[message->field_count++], line)) {
            return "a line is not a header field (name: value)";
        }
        line = next;
    }
    if (!fields)
        return "it has no request line";
    if (!message_find(message, "host"))
        return "it has no host field";
    if (message_find(message, "transfer-encoding"))
        return "transfer-encoding is not supported: send the body with content-length";
    return parse_length(message);
}

const struct message_field *message_find(const struct message *message, const char *name)
{
    for (size_t at = 0; at < message->field_count; at++)
        if (strcasecmp(message->fields[at].name, name) == 0)
            return &message->fields[at];
    return NULL;
}
