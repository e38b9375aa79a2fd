/* Runs a task as a request of the engine: everything that PHP keeps in memory begins anew. */
#include <php.h>
#include <php_main.h>
#include <php_variables.h>
#include <SAPI.h>

#include "answer.h"
#include "failure.h"
#include "functions.h"
#include "isolation.h"
#include "request.h"
#include "run.h"
#include "sapi.h"
#include "worker.h"
#include <sys/stat.h>

/* The script for calls and jobs, and its $argv. */
static struct {
    char *path, **words;
    int count;
    /* Of php.ini, for requests. */
    bool register_words;
} handler;

void run_begin(char *script, int count, char **words)
{
    handler.path = script;
    handler.words = words;
    handler.count = count;
    handler.register_words = PG(register_argc_argv);
}

char *run_script(void)
{
    return handler.path;
}

/* Calls, jobs and the boot are like scripts of the command line. */
static void describe_script(void)
{
    sapi_request_info *info = &SG(request_info);
    memset(info, 0, sizeof *info);
    SG(server_context) = &request;
    EG(exit_status) = 0;
    SG(sapi_headers).http_response_code = 200;
    info->path_translated = handler.path;
    info->proto_num = 1001;
    info->argc = handler.count;
    info->argv = handler.words;
    info->no_headers = true;
    PG(register_argc_argv) = true;
}

void run_describe(void)
{
    const struct message *message = &request.message;
    sapi_request_info *info = &SG(request_info);
    describe_script();
    info->content_length = (zend_long)request.body.len;
    if (!request.task->is_http)
        return;
    info->path_translated = request.script;
    info->argc = 0;
    info->argv = NULL;
    info->no_headers = false;
    PG(register_argc_argv) = handler.register_words;
    const char *query = strchr(message->rest, '?');
    const struct message_field *type = message_find(message, "content-type"), *login = message_find(message, "authorization");
    info->request_method = message->method;
    info->query_string = query ? (char *)query + 1 : "";
    info->request_uri = *message->rest == '/' ? message->rest : "/";
    info->content_type = type ? type->value : NULL;
    info->proto_num = strcmp(message->version, "HTTP/1.0") == 0 ? 1000 : 1001;
    php_handle_auth_data(login ? login->value : NULL);
}

static void execute(const char *script, int options)
{
    SG(options) = options;
    functions_define_streams();
    zend_file_handle file;
    zend_stream_init_filename(&file, script);
    file.primary_script = true;
    php_execute_script(&file);
#if PHP_VERSION_ID >= 80100
    zend_destroy_file_handle(&file);
#endif
}

void run_boot(void)
{
    describe_script();
    /* What it prints is logged at once, so that it is known where a boot that does not end was. */
    zend_long buffering = PG(output_buffering);
    PG(output_buffering) = 0;
    bool has_begun = php_request_startup() == SUCCESS;
    PG(output_buffering) = buffering;
    if (has_begun)
        execute(handler.path, SAPI_OPTION_NO_CHDIR);
}

static void serve(void)
{
    run_describe();
    zend_first_try {
        /* Calls and jobs stay in the pool's directory, as scripts of the command line do. */
        if (php_request_startup() == SUCCESS)
            execute(request.script, request.task->is_http ? 0 : SAPI_OPTION_NO_CHDIR);
    } zend_end_try();
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_end_try();
}

/* Answers a request for a script that does not exist, as php-fpm does. Returns false if it exists. */
static bool is_missing(void)
{
    struct stat info;
    if (stat(request.script, &info) == 0 && !S_ISDIR(info.st_mode))
        return false;
    if (!request.task->is_http)
        return true;
    buffer_text(&answer.head, "HTTP/1.1 404 Not Found\r\ncontent-type: text/html; charset=UTF-8\r\n\r\n");
    buffer_text(&answer.body, "File not found.\n");
    answer.has_head = true;
    return true;
}

void run_task(struct task *task)
{
    if (!task->is_http && !handler.path) {
        char text[400];
        snprintf(text, sizeof text, "this pool answers HTTP requests only, not the %s '%.255s': add a script to its command",
                 task->is_job ? "job" : "call", task->name);
        worker_reject(task, WIRE_UNIMPLEMENTED, text);
        return;
    }
    const char *invalid = request_begin(task, handler.path, false);
    if (invalid) {
        worker_reject(task, WIRE_INVALID_ARGUMENT, invalid);
        request_end();
        return;
    }
    failure_reset();
    answer_begin(task);
    worker.current = task;
    if (is_missing())
        answer_end(&(struct verdict){.status = WIRE_EXCEPTION, .text = "the script in the pool's command does not exist"});
    else
        serve();
    if (sapi_is_forked)
        _exit(EG(exit_status));
#ifdef ZEND_SIGNALS
    /* The engine has its handlers from the first request on, and need not look for them again. */
    SIGG(reset) = 0;
#endif
    if (!answer.is_done)
        answer_end(&(struct verdict){.status = WIRE_EXCEPTION, .text = "PHP could not start the request"});
    worker.current = NULL;
    request_end();
    isolation_reset();
}
