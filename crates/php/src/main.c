/* stoker-php: the host program of strategy = "sapi". One process that runs one task after another, each as a request of its own
 * to the PHP engine. */
#include <php.h>
#include <php_main.h>
#include <SAPI.h>

#include "failure.h"
#include "isolation.h"
#include "options.h"
#include "run.h"
#include "sapi.h"
#include "signals.h"
#include "worker.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

/* Takes the inherited socket over, so that programs which a task starts do not inherit it. */
static int take_socket(void)
{
    const char *text = getenv("STOKER_FD");
    int number = text ? atoi(text) : -1, fd = number < 0 ? -1 : fcntl(number, F_DUPFD_CLOEXEC, 100);
    if (fd < 0) {
        fputs("stoker-php: `stoker serve` starts this program, for a pool with strategy = \"sapi\" (STOKER_FD is not set)\n", stderr);
        exit(2);
    }
    if (number <= STDERR_FILENO) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, number);
        close(null);
    } else {
        close(number);
    }
    unsetenv("STOKER_FD");
    return fd;
}

/* The fields of HELLO. */
static void describe(struct buffer *hello, const char *sites, bool has_script)
{
    buffer_format(hello, "\"v\":[1],\"role\":\"worker\",\"name\":\"sapi\",\"pid\":%d,\"slots\":1,\"soft_cancel\":true,\"calls\":[", getpid());
    const char *comma = "";
    for (size_t len; *sites; sites += len + (sites[len] == ',')) {
        len = strcspn(sites, ",");
        if (len == 0)
            continue;
        buffer_format(hello, "%s\"http:%.*s.request\"", comma, (int)len, sites);
        comma = ",";
    }
    buffer_text(hello, has_script ? "],\"jobs\":[\"*\"]" : "]");
    if (worker.tasks_left < UINT64_MAX)
        buffer_format(hello, ",\"tasks\":%llu", (unsigned long long)worker.tasks_left);
    buffer_add(hello, "", 1);
}

static void forked(void)
{
    sapi_is_forked = true;
    worker.fd = -1;
}

/* OPcache runs in processes of certain names only, and frameworks decide by the name whether they answer a request. */
static const char *name_for(const char *sites)
{
    return *sites ? "fpm-fcgi" : "cli";
}

static void start(struct options *options, const char *sites)
{
    sapi_module_struct *module = &sapi_of_stoker;
    module->name = (char *)name_for(sites);
    module->php_ini_path_override = options->ini;
    module->php_ini_ignore = options->has_no_ini;
    zend_signal_startup();
    sapi_startup(module);
    module->ini_entries = options->settings.bytes;
    if (module->startup(module) == FAILURE) {
        fputs("stoker-php: PHP could not be started\n", stderr);
        exit(1);
    }
}

int main(int count, char **words)
{
    struct options options = {0};
    struct buffer hello = {0};
    options_read(&options, count, words);
    int fd = take_socket();
    const char *sites = getenv("STOKER_SITES") ? getenv("STOKER_SITES") : "", *tasks = getenv("STOKER_TASKS");
    worker.tasks_left = tasks ? strtoull(tasks, NULL, 10) : UINT64_MAX;
    signals_install();
    start(&options, sites);
    signals_watch();
    failure_watch();
    isolation_begin();
    pthread_atfork(NULL, NULL, forked);
    run_begin(options.count > 0 ? options.words[0] : NULL, options.count, options.words);
    describe(&hello, sites, options.count > 0);
    worker_open(fd, hello.bytes);
    buffer_free(&hello);
    for (struct task *task; (task = worker_next());) {
        run_task(task);
        free(task);
    }
    sapi_of_stoker.shutdown(&sapi_of_stoker);
    sapi_shutdown();
    return 0;
}
