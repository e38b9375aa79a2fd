/* The server API through which PHP talks to its host: output, headers, the body, variables, the log. */
#include <php.h>
#include <php_main.h>
#include <php_variables.h>

#include "answer.h"
#include "failure.h"
#include "functions.h"
#include "head.h"
#include "request.h"
#include "sapi.h"
#include "variables.h"
#include "worker.h"

extern char **environ;

bool sapi_is_forked;

/* Ends the script whose output nobody wants, unless it ignores that. */
static void abort_script(void)
{
    worker.is_ending = true;
    php_handle_aborted_connection();
}

static size_t write_output(const char *bytes, size_t len)
{
    if (sapi_is_forked || !request.task) {
        ssize_t count = write(STDOUT_FILENO, bytes, len);
        return count < 0 ? 0 : (size_t)count;
    }
    if (!answer_write(bytes, len))
        abort_script();
    return len;
}

static void flush_output(void *context)
{
    (void)context;
    if (sapi_is_forked || !request.task)
        return;
    if (request.task->is_http)
        sapi_send_headers();
    if (!answer_flush())
        abort_script();
}

static int send_headers(sapi_headers_struct *headers)
{
    if (!sapi_is_forked && request.task && request.task->is_http && !answer.is_done)
        head_write(headers);
    return SAPI_HEADER_SENT_SUCCESSFULLY;
}

/* Sends the answer: at this point the script, its shutdown functions and its destructors have run. */
static int deactivate(void)
{
    if (!sapi_is_forked && request.task && !answer.is_done) {
        struct verdict verdict = failure_verdict(request.task->is_job);
        answer_end(&verdict);
    }
    return SUCCESS;
}

static size_t read_body(char *to, size_t len)
{
    return body_read(&request.body, to, len);
}

static char *cookies(void)
{
    return variables_cookies();
}

static char *get_variable(const char *name, size_t len)
{
    return (char *)variables_find(name, len);
}

static void import_environment(zval *array)
{
    for (char **entry = environ; *entry; entry++) {
        const char *end = strchr(*entry, '=');
        char name[256];
        if (!end || end == *entry || (size_t)(end - *entry) >= sizeof name)
            continue;
        memcpy(name, *entry, (size_t)(end - *entry));
        name[end - *entry] = 0;
        if (!variables_hide(name))
            php_register_variable(name, (char *)end + 1, array);
    }
}

/* The environment as $_SERVER has it, without what a request could have sent; undefined unless it is kept. */
static zval environment;

void sapi_keep_environment(void)
{
    array_init(&environment);
    import_environment(&environment);
}

static void register_variables(zval *array)
{
    size_t count;
    const struct variable *all = variables_all(&count);
    if (Z_TYPE(environment) == IS_ARRAY)
        zend_hash_copy(Z_ARRVAL_P(array), Z_ARRVAL(environment), zval_add_ref);
    else
        import_environment(array);
    for (size_t at = 0; at < count; at++) {
        char *value = (char *)all[at].value;
        size_t len = all[at].len;
        if (sapi_module.input_filter(PARSE_SERVER, (char *)all[at].name, &value, len, &len))
            php_register_variable_safe((char *)all[at].name, value, len, array);
    }
}

static void log_message(const char *message, int type)
{
    (void)type;
    if (sapi_is_forked || worker.fd < 0) {
        fprintf(stderr, "%s\n", message);
        return;
    }
    struct buffer line = {0};
    buffer_text(&line, message);
    buffer_text(&line, "\n");
    worker_event(WIRE_LOG, 2, line.bytes, line.len);
    buffer_free(&line);
}

static int start(sapi_module_struct *module)
{
#if PHP_VERSION_ID >= 80200
    return php_module_startup(module, functions_module());
#else
    return php_module_startup(module, functions_module(), 1);
#endif
}

#define DEFAULT(name, value)                                                 \
    do {                                                                     \
        zval setting;                                                        \
        ZVAL_NEW_STR(&setting, zend_string_init(value, sizeof value - 1, 1)); \
        zend_hash_str_update(settings, name, sizeof name - 1, &setting);     \
    } while (0)

/* What php.ini may change. */
static void set_defaults(HashTable *settings)
{
    DEFAULT("display_errors", "0");
    DEFAULT("log_errors", "1");
}

sapi_module_struct sapi_of_stoker = {
    .name = "cli",
    .pretty_name = "Stoker",
    .startup = start,
    .shutdown = php_module_shutdown_wrapper,
    .deactivate = deactivate,
    .ub_write = write_output,
    .flush = flush_output,
    .getenv = get_variable,
    .sapi_error = php_error,
    .send_headers = send_headers,
    .read_post = read_body,
    .read_cookies = cookies,
    .register_server_variables = register_variables,
    .log_message = log_message,
    .ini_defaults = set_defaults,
    .php_ini_ignore_cwd = 1,
};
