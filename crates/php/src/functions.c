/* The functions and constants that this host adds to PHP. */
#include <php.h>
#include <php_output.h>
#include <SAPI.h>

#include "answer.h"
#include "failure.h"
#include "functions.h"
#include "handler.h"
#include "hooks.h"
#include "request.h"
#include "sapi.h"
#include "version.h"
#include <ctype.h>

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(of_nothing_to_bool, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(of_nothing_to_string, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(of_nothing_to_array, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(of_nothing_to_nothing, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(of_answer, 0, 1, IS_VOID, 0)
ZEND_ARG_TYPE_INFO(0, answer, IS_STRING, 0)
ZEND_END_ARG_INFO()

/* fastcgi_finish_request(): bool. Sends the answer to a request or a call; the script goes on. */
PHP_FUNCTION(fastcgi_finish_request)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (sapi_is_forked || !request.task || request.task->is_job || answer.is_done)
        RETURN_FALSE;
    php_output_end_all();
    if (request.task->is_http)
        sapi_send_headers();
    struct verdict verdict = {.status = WIRE_OK};
    answer_end(&verdict);
    RETURN_TRUE;
}

/* stoker_payload(): string. The payload of the call or job. */
PHP_FUNCTION(stoker_payload)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (!request.task || request.task->is_http) {
        zend_throw_error(NULL, "stoker_payload(): the task is an HTTP request: read its body from php://input");
        RETURN_THROWS();
    }
    RETURN_STRINGL(request.task->body, request.task->body_len);
}

/* stoker_answer(string $answer): void. Sets the result of the call or job; what the script prints then goes to the log. */
PHP_FUNCTION(stoker_answer)
{
    zend_string *bytes;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(bytes)
    ZEND_PARSE_PARAMETERS_END();
    if (sapi_is_forked || !request.task || request.task->is_http) {
        zend_throw_error(NULL, "stoker_answer(): only the process that runs a call or a job can answer it; the answer to an HTTP request is printed");
        RETURN_THROWS();
    }
    if (!answer_give(ZSTR_VAL(bytes), ZSTR_LEN(bytes))) {
        zend_throw_error(NULL, "stoker_answer(): a part of the answer was sent already");
        RETURN_THROWS();
    }
}

/* getallheaders(): array. The header fields of the request. */
PHP_FUNCTION(getallheaders)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    if (!request.task || !request.task->is_http)
        return;
    for (size_t at = 0; at < request.message.field_count; at++) {
        const struct message_field *field = &request.message.fields[at];
        char name[256];
        size_t len = strlen(field->name);
        if (len >= sizeof name)
            continue;
        for (size_t byte = 0; byte <= len; byte++)
            name[byte] = (char)(byte == 0 || field->name[byte - 1] == '-' ? toupper((unsigned char)field->name[byte]) : field->name[byte]);
        add_assoc_stringl_ex(return_value, name, len, field->value, field->value_len);
    }
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(of_handler, 0, 1, IS_VOID, 0)
ZEND_ARG_TYPE_INFO(0, handler, IS_CALLABLE, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, sample, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(of_hook, 0, 1, IS_VOID, 0)
ZEND_ARG_TYPE_INFO(0, hook, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    PHP_FE(fastcgi_finish_request, of_nothing_to_bool)
    PHP_FE(stoker_payload, of_nothing_to_string)
    PHP_FE(stoker_answer, of_answer)
    PHP_FE(stoker_handle, of_handler)
    PHP_FE(stoker_reboot, of_nothing_to_nothing)
    PHP_FE(stoker_before_fork, of_hook)
    PHP_FE(stoker_after_fork, of_hook)
    PHP_FE(getallheaders, of_nothing_to_array)
    PHP_FALIAS(apache_request_headers, getallheaders, of_nothing_to_array)
    PHP_FE_END
};

static zend_module_entry extension = {
    STANDARD_MODULE_HEADER, "stoker", functions, NULL, NULL, NULL, NULL, NULL, STOKER_VERSION, STANDARD_MODULE_PROPERTIES,
};

zend_module_entry *functions_module(void)
{
    return &extension;
}

/* With the name "cli", PHP opens each of its standard streams the first time without duplicating the descriptor, and a script that
 * closes the stream closes the descriptor for good. */
static void take_first(const char *path, const char *mode)
{
    php_stream *stream = php_stream_open_wrapper((char *)path, mode, 0, NULL);
    if (!stream)
        return;
    stream->flags |= PHP_STREAM_FLAG_NO_CLOSE;
    php_stream_close(stream);
}

static void define(const char *name, int fd, const char *mode)
{
    php_stream *stream = php_stream_fopen_from_fd(fd, mode, NULL);
    if (!stream)
        return;
    stream->flags |= PHP_STREAM_FLAG_NO_CLOSE;
    zend_constant constant;
    php_stream_to_zval(stream, &constant.value);
    constant.name = zend_string_init_interned(name, strlen(name), 0);
    ZEND_CONSTANT_SET_FLAGS(&constant, 0, 0);
    zend_register_constant(&constant);
}

void functions_define_streams(void)
{
    static bool has_run;
    if (!has_run && strcmp(sapi_module.name, "cli") == 0) {
        take_first("php://stdin", "rb");
        take_first("php://stdout", "wb");
        take_first("php://stderr", "wb");
    }
    has_run = true;
    define("STDIN", STDIN_FILENO, "rb");
    define("STDOUT", STDOUT_FILENO, "wb");
    define("STDERR", STDERR_FILENO, "wb");
}
