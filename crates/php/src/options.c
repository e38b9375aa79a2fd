/* The command line of stoker-php: options as PHP has them, a script, and its arguments. */
#include "options.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: stoker-php [-d NAME[=VALUE]]... [-c PATH] [-n] [SCRIPT [ARGUMENT]...]\n"
    "\n"
    "Runs the tasks of a Stoker pool with PHP. `stoker serve` starts it for pools with strategy = \"sapi\".\n"
    "  -d NAME=VALUE  a setting of php.ini\n"
    "  -c PATH        read this php.ini, or the one in this directory\n"
    "  -n             read no php.ini\n"
    "  SCRIPT         runs the pool's calls and jobs. HTTP requests are run by the front controller of their site\n";

static void fail(const char *what, const char *word)
{
    fprintf(stderr, "stoker-php: %s%s\n\n%s", what, word, USAGE);
    exit(2);
}

static void add_setting(struct options *options, const char *setting)
{
    const char *equals = strchr(setting, '=');
    buffer_text(&options->settings, setting);
    buffer_text(&options->settings, equals ? "\n" : "=1\n");
}

void options_read(struct options *options, int count, char **words)
{
    /* Stoker's own limits of time apply to the wall clock, and bodies are complete when a script begins. */
    buffer_text(&options->settings, "max_execution_time=0\nmax_input_time=-1\nopcache.enable_cli=1\n");
    int at = 1;
    for (; at < count && words[at][0] == '-'; at++) {
        char kind = words[at][1];
        bool has_value = kind == 'd' || kind == 'c', is_short = kind && words[at][2] == 0;
        const char *value = words[at] + 2;
        if (!strchr("dcn", kind) || (kind == 'n' && !is_short))
            fail("unknown option ", words[at]);
        if (has_value && is_short) {
            if (at + 1 == count)
                fail("a value is missing after ", words[at]);
            value = words[++at];
        }
        if (kind == 'd')
            add_setting(options, value);
        else if (kind == 'c')
            options->ini = (char *)value;
        else
            options->has_no_ini = true;
    }
    buffer_add(&options->settings, "", 1);
    options->count = count - at;
    options->words = words + at;
    if (options->count == 0)
        return;
    char *path = realpath(words[at], NULL);
    if (!path)
        fail("script not found: ", words[at]);
    words[at] = path;
}
