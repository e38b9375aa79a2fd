/* The variables of a task: those of CGI (RFC 3875) for a request, and STOKER_… for calls and jobs. They are built when they
 * are used for the first time. */
#include "variables.h"
#include "request.h"
#include "version.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX (MESSAGE_MAX_FIELDS + 30)

static struct variable all[MAX];
static size_t count;
/* The memory of the variables' texts. */
static char *arena, *arena_at, *arena_end;

/* Room for a string of `len` bytes. */
static char *room(size_t len)
{
    if ((size_t)(arena_end - arena_at) <= len) {
        fputs("stoker-php: the variables of a task need more memory than was reserved\n", stderr);
        abort();
    }
    char *text = arena_at;
    arena_at += len + 1;
    text[len] = 0;
    return text;
}

static const char *copy(const char *bytes, size_t len)
{
    return memcpy(room(len), bytes, len);
}

static void set(const char *name, const char *value, size_t len)
{
    all[count++] = (struct variable){name, value, len};
}

static void set_text(const char *name, const char *value)
{
    set(name, value, strlen(value));
}

static struct variable *find(const char *name, size_t len)
{
    for (size_t at = 0; at < count; at++)
        if (strncmp(all[at].name, name, len) == 0 && all[at].name[len] == 0)
            return &all[at];
    return NULL;
}

/* The name "HTTP_…" of a field; NULL if the field is left out. A name with other characters than letters, digits and
 * hyphens could pass for another one, and "proxy" for the setting HTTP_PROXY of many libraries. */
static const char *variable_name(const char *field)
{
    if (!strcasecmp(field, "proxy") || !strcasecmp(field, "content-type") || !strcasecmp(field, "content-length"))
        return NULL;
    size_t len = strlen(field);
    char *name = room(len + 5);
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
        struct variable *known = find(name, strlen(name));
        if (!known) {
            set(name, field->value, field->value_len);
            continue;
        }
        char *value = room(known->len + 2 + field->value_len);
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
            port = copy(authority + host_len, len - host_len);
        host_len--;
    } else {
        host_len = len;
    }
    const char *version = message->version;
    set_text("GATEWAY_INTERFACE", "CGI/1.1");
    set_text("SERVER_SOFTWARE", "stoker/" STOKER_VERSION);
    set_text("SERVER_PROTOCOL", !strcmp(version, "HTTP/2") ? "HTTP/2.0" : !strcmp(version, "HTTP/3") ? "HTTP/3.0" : version);
    set("SERVER_NAME", copy(authority, host_len), host_len);
    set_text("SERVER_PORT", port);
    set_text("REQUEST_METHOD", message->method);
    set_text("REQUEST_SCHEME", message->is_https ? "https" : "http");
    if (message->is_https)
        set_text("HTTPS", "on");
    set_text("REDIRECT_STATUS", "200");
}

static void set_client(void)
{
    char *client = task_text(request.task, WIRE_CLIENT_ADDRESS);
    char *colon = client ? strrchr(client, ':') : NULL;
    if (colon) {
        const char *address = client;
        size_t len = (size_t)(colon - client);
        if (*address == '[') {
            address++;
            len -= 2;
        }
        set("REMOTE_ADDR", copy(address, len), len);
        set_text("REMOTE_PORT", copy(colon + 1, strlen(colon + 1)));
    }
    free(client);
}

/* Decodes "%41". A path with an encoded NUL is left as it is, because a variable can't contain NUL. */
static const char *decoded(const char *path, size_t len)
{
    char *text = room(len), *to = text;
    for (const char *from = path; from < path + len; from++) {
        char hex[3] = {from[0], from + 2 < path + len ? from[1] : 0, from + 2 < path + len ? from[2] : 0};
        if (*from == '%' && isxdigit((unsigned char)hex[1]) && isxdigit((unsigned char)hex[2])) {
            *to = (char)strtol(hex + 1, NULL, 16);
            if (!*to++)
                return copy(path, len);
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
    const char *root_text = copy(root ? root : script, root_len);
    free(root);
    while (root_len > 0 && root_text[root_len - 1] == '/')
        root_len--;
    bool is_inside = strncmp(script, root_text, root_len) == 0 && script[root_len] == '/';
    const char *name = is_inside ? script + root_len : script + parent_len;
    set_text("SCRIPT_FILENAME", script);
    set_text("SCRIPT_NAME", name);
    set_text("DOCUMENT_ROOT", root_len > 0 ? copy(root_text, root_len) : "/");

    const char *rest = message->rest;
    size_t path_len = strcspn(rest, "?");
    const char *slash = *rest == '/' ? "" : "/";
    char *uri = room(strlen(rest) + 1);
    sprintf(uri, "%s%s", !*rest && !strcmp(message->method, "OPTIONS") ? "*" : slash, rest);
    set_text("REQUEST_URI", uri);
    set_text("QUERY_STRING", rest[path_len] ? rest + path_len + 1 : "");
    /* As with nginx and Apache: what follows the script's own name in the path; usually nothing. */
    size_t name_len = strlen(name);
    const char *info = "";
    if (path_len > name_len && strncmp(rest, name, name_len) == 0 && rest[name_len] == '/') {
        info = decoded(rest + name_len, path_len - name_len);
        set_text("PATH_INFO", info);
    }
    char *self = room(name_len + strlen(info));
    sprintf(self, "%s%s", name, info);
    set_text("PHP_SELF", self);
}

static void set_body(const struct message *message)
{
    const struct message_field *type = message_find(message, "content-type");
    if (type)
        set("CONTENT_TYPE", type->value, type->value_len);
    if (message->content_length >= 0) {
        char *len = room(20);
        snprintf(len, 21, "%lld", (long long)message->content_length);
        set_text("CONTENT_LENGTH", len);
    }
}

static void set_task(const struct task *task)
{
    char *label = room(37), *attempt = room(4);
    task_label(task, label);
    snprintf(attempt, 5, "%d", task->attempt);
    set_text("STOKER_NAME", task->name);
    set_text("STOKER_ID", label);
    set_text("STOKER_ATTEMPT", attempt);
}

/* An upper bound for the texts that room() is asked for. */
static size_t needed(void)
{
    if (!request.task->is_http)
        return 128;
    const struct message *message = &request.message;
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

static void build(void)
{
    size_t len = needed();
    arena = arena_at = malloc(len);
    arena_end = arena + (arena ? len : 0);
    if (!request.task->is_http) {
        set_task(request.task);
        return;
    }
    set_fields(&request.message);
    set_server(&request.message);
    set_client();
    set_places(&request.message);
    set_body(&request.message);
}

const struct variable *variables_all(size_t *number)
{
    if (!arena && request.task)
        build();
    *number = count;
    return all;
}

const char *variables_find(const char *name, size_t len)
{
    size_t number;
    variables_all(&number);
    const struct variable *found = find(name, len);
    return found ? found->value : NULL;
}

bool variables_hide(const char *name)
{
    static const char *const sometimes[] = {"AUTH_TYPE", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTPS", "PATH_INFO", "PATH_TRANSLATED",
                                            "REMOTE_ADDR", "REMOTE_PORT", "REMOTE_USER"};
    if (!request.task || !request.task->is_http)
        return false;
    for (size_t at = 0; at < sizeof sometimes / sizeof *sometimes; at++)
        if (!strcmp(name, sometimes[at]))
            return true;
    return strncmp(name, "HTTP_", 5) == 0;
}

char *variables_cookies(void)
{
    if (!request.task || !request.task->is_http || !message_find(&request.message, "cookie"))
        return NULL;
    return (char *)variables_find("HTTP_COOKIE", strlen("HTTP_COOKIE"));
}

void variables_free(void)
{
    free(arena);
    arena = arena_at = arena_end = NULL;
    count = 0;
}
