/* Writes the head of a response. Hop-by-hop fields are left out, and so is `content-length` unless the
 * response has no body: it is added if the answer is sent in parts, and otherwise the frame determines the length. */
#include <php.h>

#include "answer.h"
#include "head.h"
#include "message.h"
#include "request.h"
#include <ctype.h>

/* Whether a comma-separated list has this token. */
static bool has_token(const char *list, size_t len, const char *token, size_t token_len)
{
    const char *end = list + len;
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list)), *stop = comma ? comma : end;
        const char *from = list, *to = stop;
        while (from < to && isspace((unsigned char)*from))
            from++;
        while (to > from && isspace((unsigned char)to[-1]))
            to--;
        if ((size_t)(to - from) == token_len && strncasecmp(from, token, token_len) == 0)
            return true;
        list = stop + 1;
    }
    return false;
}

static bool is_named(const sapi_header_struct *field, size_t len, const char *name)
{
    return strlen(name) == len && strncasecmp(field->header, name, len) == 0;
}

/* Whether a field describes one connection only, or is named by a `connection` field. */
static bool is_hop_by_hop(sapi_headers_struct *headers, const sapi_header_struct *field, size_t len)
{
    static const char *const names[] = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (is_named(field, len, names[at]))
            return true;
    zend_llist_position position;
    for (sapi_header_struct *other = zend_llist_get_first_ex(&headers->headers, &position); other;
         other = zend_llist_get_next_ex(&headers->headers, &position)) {
        const char *colon = memchr(other->header, ':', other->header_len);
        if (colon && is_named(other, (size_t)(colon - other->header), "connection")
            && has_token(colon + 1, other->header_len - (size_t)(colon + 1 - other->header), field->header, len))
            return true;
    }
    return false;
}

/* Notes the length that the script has announced. Returns false if it is not a number. */
static bool set_length(const char *text)
{
    text += strspn(text, " \t");
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 17 || text[digits + strspn(text + digits, " \t")] != 0)
        return false;
    answer.length = strtoll(text, NULL, 10);
    return true;
}

/* Adds a field. Returns false if its name or its value is invalid. */
static bool add(sapi_headers_struct *headers, const sapi_header_struct *field)
{
    const char *colon = memchr(field->header, ':', field->header_len);
    size_t len = colon ? (size_t)(colon - field->header) : 0;
    for (size_t at = 0; at < len; at++)
        if (!message_is_token(field->header[at]))
            return false;
    if (len == 0)
        return false;
    if (is_hop_by_hop(headers, field, len))
        return true;
    if (is_named(field, len, "content-length") && (!answer.has_no_body || headers->http_response_code == 204))
        return set_length(colon + 1);
    answer.has_no_body |= is_named(field, len, "x-sendfile");
    buffer_add(&answer.head, field->header, len);
    for (char *at = answer.head.bytes + answer.head.len - len; *at && len > 0; at++, len--)
        *at = (char)tolower((unsigned char)*at);
    const char *value = colon + 1, *end = field->header + field->header_len;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    buffer_text(&answer.head, ": ");
    buffer_add(&answer.head, value, (size_t)(end - value));
    buffer_text(&answer.head, "\r\n");
    return true;
}

/* Writes the status line, with the reason if the script has chosen one. */
static void add_status(const sapi_headers_struct *headers)
{
    const char *line = headers->http_status_line, *reason = "";
    const char *space = line ? strchr(line, ' ') : NULL;
    if (space && atoi(space + 1) == headers->http_response_code && (space = strchr(space + 1, ' ')))
        reason = space + 1;
    for (const char *at = reason; *at; at++)
        if (*at < ' ' || *at > '~')
            reason = "";
    buffer_format(&answer.head, "HTTP/1.1 %d %s\r\n", headers->http_response_code, reason);
}

void head_write(sapi_headers_struct *headers)
{
    static char text[160];
    int code = headers->http_response_code;
    size_t count = 0;
    answer.has_head = true;
    answer.has_no_body = code == 204 || code == 304 || strcmp(request.message.method, "HEAD") == 0;
    if (code < 200 || code > 599) {
        snprintf(text, sizeof text, "the status of the response is %d: expected 200 to 599", code);
        answer.invalid = text;
        return;
    }
    add_status(headers);
    zend_llist_position position;
    for (sapi_header_struct *field = zend_llist_get_first_ex(&headers->headers, &position); field;
         field = zend_llist_get_next_ex(&headers->headers, &position)) {
        if (!add(headers, field)) {
            snprintf(text, sizeof text, "the response has an invalid header field: %.100s", field->header);
            answer.invalid = text;
            return;
        }
        count++;
    }
    buffer_text(&answer.head, "\r\n");
    if (count > MESSAGE_MAX_FIELDS || answer.head.len > MESSAGE_MAX_HEAD)
        answer.invalid = "the response has more than 100 header fields, or more than 64 KB of them";
}
