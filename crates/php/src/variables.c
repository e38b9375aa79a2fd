/* The variables of a task: those of CGI (RFC 3875) for a request, and STOKER_… for calls and jobs. They are built when they
 * are used for the first time. */
#include "request.h"
#include "variables_build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields of a request and 30 more, or all that is known about a task: 8 variables, and those of 127 keys of the application. */
#define MAX (MESSAGE_MAX_FIELDS + 40)

static struct variable all[MAX];
static size_t count;
/* The memory of the variables' texts. */
static char *arena, *arena_at, *arena_end;

char *variables_room(size_t len)
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

const char *variables_copy(const char *bytes, size_t len)
{
    return memcpy(variables_room(len), bytes, len);
}

void variables_set(const char *name, const char *value, size_t len)
{
    all[count++] = (struct variable){name, value, len};
}

void variables_set_text(const char *name, const char *value)
{
    variables_set(name, value, strlen(value));
}

struct variable *variables_get(const char *name, size_t len)
{
    for (size_t at = 0; at < count; at++)
        if (strncmp(all[at].name, name, len) == 0 && all[at].name[len] == 0)
            return &all[at];
    return NULL;
}

static void build(void)
{
    const struct task *task = request.task;
    size_t len = task->is_http ? variables_needed(&request.message) : variables_needed_for_task(task);
    arena = arena_at = malloc(len);
    arena_end = arena + (arena ? len : 0);
    if (task->is_http)
        variables_of_request(&request.message);
    else
        variables_of_task(task);
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
    const struct variable *found = variables_get(name, len);
    return found ? found->value : NULL;
}

bool variables_hide(const char *name)
{
    static const char *const sometimes[] = {"AUTH_TYPE", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTPS", "PATH_INFO", "PATH_TRANSLATED",
                                            "REMOTE_ADDR", "REMOTE_PORT", "REMOTE_USER"};
    if (request.task && !request.task->is_http)
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
