/* The variables of a call or job: what is known about it, besides the payload. Adapters give the same to their programs. */
#include "request.h"
#include "variables_build.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The longest decimal number. */
#define DIGITS 20
/* The longest name of a variable for metadata of the application: "STOKER_META_254". */
#define META_NAME 15

static void set_number(const char *name, uint64_t number, const char *unit)
{
    char *text = variables_room(DIGITS + strlen(unit));
    sprintf(text, "%" PRIu64 "%s", number, unit);
    variables_set_text(name, text);
}

/* A string that every variable can contain: other bytes than visible ASCII characters, and "%", become "%41". */
static void set_encoded(const char *name, const struct wire_entry *entry)
{
    char *text = variables_room(3u * entry->len), *to = text;
    for (size_t at = 0; at < entry->len; at++) {
        unsigned char byte = (unsigned char)entry->value[at];
        if (byte > ' ' && byte < 0x7f && byte != '%')
            *to++ = (char)byte;
        else
            to += sprintf(to, "%%%02X", byte);
    }
    *to = 0;
    variables_set_text(name, text);
}

static uint64_t number_of(const struct wire_entry *entry)
{
    uint64_t number = 0;
    for (size_t at = 0; at < entry->len; at++)
        number = number << 8 | (unsigned char)entry->value[at];
    return number;
}

static void set_timeout(const struct task *task)
{
    struct wire_entry entry;
    if (task->time_left > 0)
        set_number("STOKER_TIMEOUT", task->time_left, "ms");
    else if (wire_find(task->meta, task->meta_len, WIRE_TIMEOUT, &entry))
        set_number("STOKER_TIMEOUT", number_of(&entry), "ms");
}

void variables_of_task(const struct task *task)
{
    static const struct {
        uint8_t key;
        const char *name;
    } numbers[] = {{WIRE_TRIES, "STOKER_TRIES"}, {WIRE_CRASHES, "STOKER_CRASHES"}, {WIRE_CREATED_AT, "STOKER_CREATED_AT"}};
    char *label = variables_room(36);
    struct wire_entry entry;
    task_label(task, label);
    variables_set_text("STOKER_NAME", task->name);
    variables_set_text("STOKER_ID", label);
    set_number("STOKER_ATTEMPT", task->attempt, "");
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
        if (wire_find(task->meta, task->meta_len, numbers[at].key, &entry))
            set_number(numbers[at].name, number_of(&entry), "");
    set_timeout(task);
    if (wire_find(task->meta, task->meta_len, WIRE_FAIRNESS, &entry))
        set_encoded("STOKER_KEY", &entry);
    for (size_t at = 0; wire_next(task->meta, task->meta_len, &at, &entry);) {
        if (entry.key < WIRE_FIRST_OF_USER)
            continue;
        char *name = variables_room(META_NAME);
        sprintf(name, "STOKER_META_%d", entry.key);
        set_encoded(name, &entry);
    }
}

size_t variables_needed_for_task(const struct task *task)
{
    struct wire_entry entry;
    size_t len = 256;
    for (size_t at = 0; wire_next(task->meta, task->meta_len, &at, &entry);)
        len += META_NAME + 3u * entry.len + 2;
    return len;
}
