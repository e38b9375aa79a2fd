/* The functions of the application that run around forks: once in the zygote when it has booted, and in each worker. */
#include "hooks.h"
#include "zygote.h"

static zval before, after;

static void add(zend_execute_data *execute_data, zval *hooks)
{
    zval *hook;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ZVAL(hook)
    ZEND_PARSE_PARAMETERS_END();
    if (!zend_is_callable(hook, 0, NULL)) {
        zend_argument_type_error(1, "must be a valid callback");
        return;
    }
    if (!zygote_is_requested())
        return; /* Nothing is forked. */
    if (Z_TYPE_P(hooks) != IS_ARRAY)
        array_init(hooks);
    Z_TRY_ADDREF_P(hook);
    add_next_index_zval(hooks, hook);
}

static bool call(zval *hooks)
{
    zval *hook;
    if (Z_TYPE_P(hooks) != IS_ARRAY)
        return true;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(hooks), hook) {
        zval result;
        ZVAL_UNDEF(&result);
        if (call_user_function(NULL, NULL, hook, &result, 0, NULL) != SUCCESS || EG(exception))
            return false;
        zval_ptr_dtor(&result);
    } ZEND_HASH_FOREACH_END();
    return true;
}

bool hooks_before_fork(void)
{
    return call(&before);
}

bool hooks_after_fork(void)
{
    bool is_done = call(&after);
    /* No output of PHP is open there, so that what they print is in the buffer of the C library. */
    fflush(stdout);
    return is_done;
}

/* stoker_before_fork(callable $hook): void */
PHP_FUNCTION(stoker_before_fork)
{
    add(execute_data, &before);
}

/* stoker_after_fork(callable $hook): void */
PHP_FUNCTION(stoker_after_fork)
{
    add(execute_data, &after);
}
