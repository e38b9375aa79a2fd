/* The variables of a request: those of CGI (RFC 3875), as php-fpm gets them. */
#include "request.h"
#include "variables_build.h"
#include "version.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The name "HTTP_…" of a field; NULL if the field is left out. A name with other characters than letters, digits and
 * hyphens could pass for another one, and "proxy" for the setting HTTP_PROXY of many libraries. */
static const char *variable_name(const char *field)
{
    if (!strcasecmp(field, "proxy") || !strcasecmp(field, "content-type") || !strcasecmp(field, "content-length"))
        return NULL;
    size_t len = strlen(field);
    char *name = variables_room(len + 5);
    memcpy(name, "HTTP_", 5);
    for (size_t at = 0; at < len; at++) {
        if (!isalnum((unsigned char)field[at]) && field[at] != '-')
            return NULL;
        name[at + 5] = field[at] == '-' ? '_' : (char)toupper((unsigned char)field[at]);
    }
    return name;
}

/* Sets the fields. Several fields with one name become one variable. */
static void set_fields(const struct message *message)
{
    for (size_t at = 0; at < message->field_count; at++) {
        const struct message_field *field = &message->fields[at];
        const char *name = variable_name(field->name);
        if (!name)
            continue;
        struct variable *known = variables_get(name, strlen(name));
        if (!known) {
            variables_set(name, field->value, field->value_len);
            continue;
        }
        char *value = variables_room(known->len + 2 + field->value_len);
        memcpy(value, known->value, known->len);
        /* Clients of HTTP/2 may send each cookie in a field of its own. */
        memcpy(value + known->len, strcasecmp(field->name, "cookie") == 0 ? "; " : ", ", 2);
        memcpy(value + known->len + 2, field->value, field->value_len);
        known->value = value;
        known->len += 2 + field->value_len;
    }
}

static void set_server(const struct message *message)
{
    size_t len = message->authority_len, host_len = len;
    const char *authority = message->authority, *port = message->is_https ? "443" : "80";
    /* The last colon of an IPv6 address in brackets does not begin a port. */
    while (host_len > 0 && authority[host_len - 1] != ':' && authority[host_len - 1] != ']')
        host_len--;
    if (host_len > 0 && authority[host_len - 1] == ':') {
        if (host_len < len)
            port = variables_copy(authority + host_len, len - host_len);
        host_len--;
    } else {
        host_len = len;
    }
    const char *version = message->version;
    variables_set_text("GATEWAY_INTERFACE", "CGI/1.1");
    variables_set_text("SERVER_SOFTWARE", "stoker/" STOKER_VERSION);
    variables_set_text("SERVER_PROTOCOL", !strcmp(version, "HTTP/2") ? "HTTP/2.0" : !strcmp(version, "HTTP/3") ? "HTTP/3.0" : version);
    variables_set("SERVER_NAME", variables_copy(authority, host_len), host_len);
    variables_set_text("SERVER_PORT", port);
    variables_set_text("REQUEST_METHOD", message->method);
    variables_set_text("REQUEST_SCHEME", message->is_https ? "https" : "http");
    if (message->is_https)
        variables_set_text("HTTPS", "on");
    variables_set_text("REDIRECT_STATUS", "200");
}

static void set_client(void)
{
    char *client = task_text(request.task, WIRE_CLIENT_ADDRESS);
    char *colon = client ? strrchr(client, ':') : NULL;
    if (colon) {
        const char *address = client;
        size_t len = (size_t)(colon - client);
        if (*address == '[' && len >= 2) {
            address++;
            len -= 2;
        }
        variables_set("REMOTE_ADDR", variables_copy(address, len), len);
        variables_set_text("REMOTE_PORT", variables_copy(colon + 1, strlen(colon + 1)));
    }
    free(client);
}

/* Decodes "%41". A path with an encoded NUL is left as it is, because a variable can't contain NUL. */
static const char *decoded(const char *path, size_t len)
{
    char *text = variables_room(len), *to = text;
    for (const char *from = path; from < path + len; from++) {
        char hex[3] = {from + 2 < path + len ? from[1] : 0, from + 2 < path + len ? from[2] : 0};
        if (*from == '%' && isxdigit((unsigned char)hex[0]) && isxdigit((unsigned char)hex[1])) {
            *to = (char)strtol(hex, NULL, 16);
            if (!*to++)
                return variables_copy(path, len);
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
    return text;
}

/* Sets the variables that say which script runs and by which path it was called. */
static void set_places(const struct message *message)
{
    const char *script = request.script, *parent_end = strrchr(script, '/');
    size_t parent_len = parent_end ? (size_t)(parent_end - script) : 0;
    char *root = task_text(request.task, WIRE_DOCUMENT_ROOT);
    size_t root_len = root ? strlen(root) : parent_len;
    const char *root_text = variables_copy(root ? root : script, root_len);
    free(root);
    while (root_len > 0 && root_text[root_len - 1] == '/')
        root_len--;
    bool is_inside = strncmp(script, root_text, root_len) == 0 && script[root_len] == '/';
    const char *name = is_inside ? script + root_len : script + parent_len;
    variables_set_text("SCRIPT_FILENAME", script);
    variables_set_text("SCRIPT_NAME", name);
    variables_set_text("DOCUMENT_ROOT", root_len > 0 ? variables_copy(root_text, root_len) : "/");

    const char *rest = message->rest;
    size_t path_len = strcspn(rest, "?");
    const char *slash = *rest == '/' ? "" : "/";
    char *uri = variables_room(strlen(rest) + 1);
    sprintf(uri, "%s%s", !*rest && !strcmp(message->method, "OPTIONS") ? "*" : slash, rest);
    variables_set_text("REQUEST_URI", uri);
    variables_set_text("QUERY_STRING", rest[path_len] ? rest + path_len + 1 : "");
    /* As with nginx and Apache: what follows the script's own name in the path; usually nothing. */
    size_t name_len = strlen(name);
    const char *info = "";
    if (path_len > name_len && strncmp(rest, name, name_len) == 0 && rest[name_len] == '/') {
        info = decoded(rest + name_len, path_len - name_len);
        variables_set_text("PATH_INFO", info);
    }
    char *self = variables_room(name_len + strlen(info));
    sprintf(self, "%s%s", name, info);
    variables_set_text("PHP_SELF", self);
}

static void set_body(const struct message *message)
{
    const struct message_field *type = message_find(message, "content-type");
    if (type)
        variables_set("CONTENT_TYPE", type->value, type->value_len);
    if (message->content_length >= 0) {
        char *len = variables_room(20);
        snprintf(len, 21, "%lld", (long long)message->content_length);
        variables_set_text("CONTENT_LENGTH", len);
    }
}

void variables_of_request(const struct message *message)
{
    set_fields(message);
    set_server(message);
    set_client();
    set_places(message);
    set_body(message);
}

size_t variables_needed(const struct message *message)
{
    size_t len = 1024 + 4 * strlen(request.script) + 4 * (strlen(message->rest) + message->authority_len);
    struct wire_entry entry;
    len += wire_find(request.task->meta, request.task->meta_len, WIRE_DOCUMENT_ROOT, &entry) ? 2u * entry.len : 0;
    size_t values = 0;
    for (size_t at = 0; at < message->field_count; at++) {
        const struct message_field *field = &message->fields[at];
        values += field->value_len + 3;
        len += strlen(field->name) + 8;
    }
    /* Fields with the same name are joined one by one. */
    return len + values * (message->field_count + 1);
}
