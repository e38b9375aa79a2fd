/* stoker-php: the host program of strategy = "sapi". One process that runs one task after another, each as a request of its own
 * to the PHP engine. */
#include <php.h>
#include <php_main.h>
#include <SAPI.h>

#include "failure.h"
#include "handler.h"
#include "hello.h"
#include "isolation.h"
#include "options.h"
#include "run.h"
#include "sapi.h"
#include "signals.h"
#include "worker.h"
#include "zygote.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Takes the inherited socket over, so that programs which a task starts do not inherit it. */
static int take_socket(void)
{
    const char *text = getenv("STOKER_FD");
    int number = text ? atoi(text) : -1, fd = number < 0 ? -1 : fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
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

static void forked(void)
{
    sapi_is_forked = true;
    if (worker.fd >= 0)
        close(worker.fd);
    worker.fd = -1;
}

/* OPcache runs in processes of certain names only, and frameworks decide by the name whether they answer a request. */
static const char *name(void)
{
    return *hello_sites() ? "fpm-fcgi" : "cli";
}

static void start(struct options *options)
{
    sapi_module_struct *module = &sapi_of_stoker;
    module->name = (char *)name();
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
    options_read(&options, count, words);
    bool is_zygote = zygote_is_requested();
    if (is_zygote && options.count == 0) {
        fputs("stoker-php: a pool with strategy = \"snapshot\" needs a script that calls stoker_handle() in its command\n", stderr);
        return 2;
    }
    int fd = is_zygote ? -1 : take_socket();
    const char *tasks = getenv("STOKER_TASKS");
    worker.tasks_left = tasks ? strtoull(tasks, NULL, 10) : UINT64_MAX;
    signals_install();
    start(&options);
    signals_watch();
    failure_watch();
    if (!is_zygote) /* A zygote does this when it has booted. */
        isolation_begin();
    pthread_atfork(NULL, NULL, forked);
    run_begin(options.count > 0 ? options.words[0] : NULL, options.count, options.words);
    if (is_zygote)
        return handler_boot();
    hello_send(fd, options.count > 0);
    for (struct task *task; (task = worker_next());) {
        run_task(task);
        free(task);
    }
    sapi_of_stoker.shutdown(&sapi_of_stoker);
    sapi_shutdown();
    return 0;
}
