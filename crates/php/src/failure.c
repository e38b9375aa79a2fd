/* How a script failed: the first error that ended it, and its exit code. */
#include <php.h>

#include "failure.h"

/* The exit code with which a script requests another run of its job: EX_TEMPFAIL of sysexits.h. */
#define EX_TEMPFAIL 75
/* The longest text of an error that is kept, in bytes. */
#define MAX_TEXT 16384

static struct {
    bool is_set;
    char text[MAX_TEXT + 1], class[1001], place[4097];
} failure;

static void (*previous_error_cb)(int type, zend_string *file, uint32_t line, zend_string *message);

static const char *name_of(int type)
{
    switch (type) {
    case E_ERROR: return "E_ERROR";
    case E_PARSE: return "ParseError";
    case E_CORE_ERROR: return "E_CORE_ERROR";
    case E_COMPILE_ERROR: return "E_COMPILE_ERROR";
    case E_USER_ERROR: return "E_USER_ERROR";
    case E_RECOVERABLE_ERROR: return "E_RECOVERABLE_ERROR";
    default: return NULL;
    }
}

/* Takes class and message out of "Uncaught Class: message in FILE:LINE", a stack trace, and the same of later exceptions. The
 * last one is the one that was not caught. */
static void split_exception(const char *text, const char *file, uint32_t line)
{
    for (const char *next = text; (next = strstr(next, "\n\nNext ")); text = next)
        next += strlen("\n\nNext ");
    char in[4200];
    snprintf(in, sizeof in, " in %.4000s:%u", file, line);
    const char *place = strstr(text, in);
    size_t class_len = strcspn(text, ": ");
    if (!place || class_len == 0)
        return;
    snprintf(failure.class, sizeof failure.class, "%.*s", (int)class_len, text);
    const char *message = text + class_len;
    message += strncmp(message, ": ", 2) == 0 ? 2 : 0;
    const char *trace = place + strlen(in);
    const char *end = strstr(trace, "\n  thrown");
    size_t trace_len = end ? (size_t)(end - trace) : strlen(trace);
    if (strncmp(trace, "\nStack trace:", 13) == 0) {
        trace += 13;
        trace_len -= 13;
    }
    if (message < place)
        snprintf(failure.text, sizeof failure.text, "%.*s%.*s", (int)(place - message), message, (int)trace_len, trace);
    else
        snprintf(failure.text, sizeof failure.text, "%s%.*s", failure.class, (int)trace_len, trace);
}

static void note(int type, zend_string *file, uint32_t line, zend_string *message)
{
    const char *class = name_of(type & ~E_DONT_BAIL), *path = file ? ZSTR_VAL(file) : "";
    if (class && !failure.is_set) {
        static const char uncaught[] = "Uncaught ";
        failure.is_set = true;
        snprintf(failure.class, sizeof failure.class, "%s", class);
        snprintf(failure.place, sizeof failure.place, "%s:%u", path, line);
        snprintf(failure.text, sizeof failure.text, "%s", ZSTR_VAL(message));
        if (strncmp(failure.text, uncaught, strlen(uncaught)) == 0)
            split_exception(ZSTR_VAL(message) + strlen(uncaught), path, line);
    }
    previous_error_cb(type, file, line, message);
}

void failure_watch(void)
{
    previous_error_cb = zend_error_cb;
    zend_error_cb = note;
}

void failure_reset(void)
{
    failure.is_set = false;
}

struct verdict failure_verdict(bool is_job)
{
    static char text[40];
    if (failure.is_set)
        return (struct verdict){WIRE_EXCEPTION, failure.text, failure.class, failure.place};
    if (EG(exit_status) == 0)
        return (struct verdict){.status = WIRE_OK};
    snprintf(text, sizeof text, "exit code %d", EG(exit_status));
    bool retries = EG(exit_status) == EX_TEMPFAIL && is_job;
    return (struct verdict){.status = retries ? WIRE_RETRY : WIRE_EXCEPTION, .text = text};
}
