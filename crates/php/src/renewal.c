/* Renews parts of the engine's open request for each task of a cloned worker: variables, output, headers, sessions, time limits.
 * Everything else stays as the boot has left it. */
#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <php_variables.h>
#include <SAPI.h>
#include <ext/standard/basic_functions.h>
#if PHP_VERSION_ID >= 80200
#include <ext/random/php_random.h>
#else
#include <ext/standard/php_lcg.h>
#endif

#include "renewal.h"
#include "request.h"
#include "run.h"

void renewal_freeze(void)
{
    /* What the boot has printed would otherwise be a part of each answer. */
    php_output_end_all();
    php_output_deactivate();
    sapi_deactivate();
    zend_set_timeout(0, 0);
    gc_collect_cycles();
    zend_mm_gc(zend_mm_get_heap());
}

void renewal_reseed(void)
{
#if PHP_VERSION_ID >= 80200
    RANDOM_G(mt19937_seeded) = false;
    RANDOM_G(combined_lcg_seeded) = false;
#else
    BG(mt_rand_is_seeded) = false;
    LCG(seeded) = 0;
#endif
}

/* Does what the beginning of a request does to the session extension, or its end. */
static void call_session(bool begins)
{
    zval *found = zend_hash_str_find(&module_registry, "session", strlen("session"));
    zend_module_entry *module = found ? Z_PTR_P(found) : NULL;
    if (!module)
        return;
    if (begins && module->request_startup_func) {
        zend_hash_str_del(&EG(symbol_table), "_SESSION", strlen("_SESSION"));
        module->request_startup_func(module->type, module->module_number);
    } else if (!begins && module->request_shutdown_func) {
        module->request_shutdown_func(module->type, module->module_number);
    }
}

static void begin_output(void)
{
    php_output_activate();
    PG(connection_status) = PHP_CONNECTION_NORMAL;
    PG(header_is_being_sent) = 0;
    sapi_activate();
    if (PG(expose_php))
        sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof SAPI_PHP_VERSION_HEADER - 1, 1);
    if (PG(output_handler) && PG(output_handler)[0]) {
        zval name;
        ZVAL_STRING(&name, PG(output_handler));
        php_output_start_user(&name, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
        zval_ptr_dtor(&name);
    } else if (PG(output_buffering)) {
        php_output_start_user(NULL, PG(output_buffering) > 1 ? (size_t)PG(output_buffering) : 0, PHP_OUTPUT_HANDLER_STDFLAGS);
    } else if (PG(implicit_flush)) {
        php_output_set_implicit_flush(1);
    }
}

/* Fills the superglobals. Code that was compiled during the boot does not ask for those that are filled when they are used. */
static void fill_variables(void)
{
    static const char *const late[] = {"_SERVER", "_ENV", "_REQUEST"};
    php_hash_environment();
    for (size_t at = 0; at < sizeof late / sizeof *late; at++)
        zend_is_auto_global_str(late[at], strlen(late[at]));
}

void renewal_begin(void)
{
    static bool has_run;
    run_describe();
    begin_output();
    fill_variables();
    if (has_run)
        call_session(true);
    has_run = true;
    if (EG(timeout_seconds) > 0)
        zend_set_timeout(EG(timeout_seconds), 1);
}

void renewal_end(void)
{
    zend_try {
        php_call_shutdown_functions();
    } zend_end_try();
    php_free_shutdown_functions();
    zend_try {
        php_output_end_all();
    } zend_end_try();
    zend_try {
        call_session(false);
    } zend_end_try();
    if (request.task->is_http)
        sapi_send_headers();
    php_output_deactivate();
    sapi_deactivate();
}
