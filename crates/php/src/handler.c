/* The handler that a script registers by stoker_handle(), and how a cloned worker runs its tasks with it: inside the request of the engine
 * in which the script has booted. */
#include <php.h>
#include <php_main.h>
#include <SAPI.h>
#include <ext/standard/basic_functions.h>

#include "answer.h"
#include "code_pages.h"
#include "failure.h"
#include "handler.h"
#include "hello.h"
#include "hooks.h"
#include "isolation.h"
#include "renewal.h"
#include "request.h"
#include "run.h"
#include "sapi.h"
#include "worker.h"
#include "working_set.h"
#include "zygote.h"

static struct {
    zend_fcall_info call;
    zend_fcall_info_cache cache;
    /* A payload, or a path of a site, for a task that is run only to find which memory it touches; NULL if there is none. */
    zend_string *sample;
} handler;

/* The shutdown functions of the boot. They run only if a task fails, because they belong to the application in the zygote. */
static HashTable *boot_functions;
/* This process is a worker that was cloned, or a copy for the sample. */
static bool is_clone;

/* Calls a function. Returns false if it threw, or called exit(). */
static bool call(zend_fcall_info *info, zend_fcall_info_cache *cache, zval *result)
{
    ZVAL_UNDEF(result);
    info->retval = result;
    return zend_call_function(info, cache) == SUCCESS && !EG(exception);
}

/* Calls the handler for the current task. What it returns is added to its output. */
static bool call_handler(void)
{
    zval payload, result;
    if (request.task->is_http)
        ZVAL_NULL(&payload);
    else
        ZVAL_STRINGL(&payload, request.task->body, request.task->body_len);
    handler.call.params = &payload;
    handler.call.param_count = 1;
    bool has_returned = call(&handler.call, &handler.cache, &result);
    if (has_returned && Z_TYPE(result) == IS_STRING)
        php_output_write(Z_STRVAL(result), Z_STRLEN(result));
    zval_ptr_dtor(&payload);
    zval_ptr_dtor(&result);
    return has_returned && !EG(exception);
}

/* Runs a task. Returns false if the script must end, because the handler threw or called exit(). */
static bool run(struct task *task)
{
    const char *invalid = request_begin(task, run_script(), true);
    if (invalid) {
        worker_reject(task, WIRE_INVALID_ARGUMENT, invalid);
        request_end();
        return worker.fd >= 0; /* Without a socket, this is the sample. */
    }
    failure_reset();
    answer_begin(task);
    worker.current = task;
    renewal_begin();
    if (!call_handler())
        return false;
    renewal_end();
    bool is_last = worker.is_leaving || worker.tasks_left == 0;
    if (is_last && worker.fd >= 0) { /* Nothing runs here any more, so nothing has to be put in order. */
        if (worker.tasks_left > 0)
            worker_leave();
        _exit(0);
    }
    request_end();
    isolation_reset();
    return true;
}

/* Runs the sample in a copy of this process. Nobody gets the answer. */
static void run_sample(void)
{
    struct buffer message = {0};
    is_clone = true;
    sapi_keep_environment();
    struct wire_frame frame = {.type = WIRE_REQ, .id = 1, .name = "stoker:sample", .name_len = strlen("stoker:sample")};
    if (*hello_sites()) {
        buffer_format(&message, "GET http://localhost%s HTTP/1.1\r\nhost: localhost\r\n\r\n", ZSTR_VAL(handler.sample));
        frame.code = WIRE_HTTP;
    } else {
        buffer_add(&message, ZSTR_VAL(handler.sample), ZSTR_LEN(handler.sample));
    }
    frame.meta = "";
    frame.body = message.bytes;
    frame.body_len = message.len;
    if (!run(task_of(&frame)))
        _exit(1);
}

/* Becomes a zygote, unless a function that runs before it fails. Returns in each worker, as soon as a task has failed; the process ends
 * without returning when it has run its tasks. */
static void serve(void)
{
    if (!hooks_before_fork())
        return;
    renewal_freeze();
    boot_functions = BG(user_shutdown_function_names);
    BG(user_shutdown_function_names) = NULL;
    isolation_begin();
    code_pages_enlarge((const void *)php_request_startup);
    if (handler.sample)
        working_set_record(run_sample);
    int fd = zygote_serve(working_set_prefault);
    is_clone = true;
    renewal_reseed();
    sapi_keep_environment();
    if (!hooks_after_fork())
        return;
    hello_send(fd, true);
    for (struct task *task; (task = worker_next()); free(task))
        if (!run(task))
            return;
    _exit(0);
}

/* stoker_handle(callable(?string): mixed $handler, ?string $sample = null): void */
PHP_FUNCTION(stoker_handle)
{
    handler.sample = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_FUNC(handler.call, handler.cache)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR_OR_NULL(handler.sample)
    ZEND_PARSE_PARAMETERS_END();
    if (is_clone || sapi_is_forked) {
        zend_throw_error(NULL, "stoker_handle() was already called in this process");
        return;
    }
    if (!zygote_is_requested()) {
        zend_throw_error(NULL, "stoker_handle() needs a pool with strategy = \"snapshot\"");
        return;
    }
    if (handler.sample && *hello_sites() && *ZSTR_VAL(handler.sample) != '/') {
        zend_argument_value_error(2, "must be a path such as \"/health\" for a pool with sites");
        RETURN_THROWS();
    }
    serve();
}

/* stoker_reboot(): void */
PHP_FUNCTION(stoker_reboot)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (!is_clone || sapi_is_forked)
        return;
    worker.is_leaving = true;
    zygote_reboot();
}

/* Answers the task of a script that has ended early. The shutdown functions of the boot run first: those of frameworks show an error page. */
static void finish(void)
{
    HashTable *own = BG(user_shutdown_function_names);
    if (!request.task) /* A function that runs after the fork has failed. */
        _exit(EG(exit_status) ? EG(exit_status) : 1);
    BG(user_shutdown_function_names) = boot_functions;
    zend_try {
        php_call_shutdown_functions();
    } zend_end_try();
    BG(user_shutdown_function_names) = own;
    bool takes_more = worker.tasks_left > 0;
    renewal_end();
    if (takes_more)
        worker_leave();
    /* Without a socket, this was the sample. */
    _exit(worker.fd < 0);
}

int handler_boot(void)
{
    zend_first_try {
        run_boot();
    } zend_end_try();
    if (sapi_is_forked)
        _exit(EG(exit_status));
    if (is_clone) {
        zend_first_try {
            finish();
        } zend_end_try();
        _exit(1);
    }
    /* False if the SDK has made this process a zygote of its own, which ends when the application shall boot again. */
    bool is_requested = zygote_is_requested();
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_end_try();
    if (EG(exit_status) || !is_requested)
        return EG(exit_status); /* What it was, has been logged. */
    fputs("stoker-php: the script of a pool with strategy = \"snapshot\" ended without calling stoker_handle()\n", stderr);
    return 1;
}
