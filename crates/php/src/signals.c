/* Signal handlers: end the script when its task is cancelled or times out, and report a crash to the server before the process
 * dies. */
#include <php.h>
#include <zend_exceptions.h>

#include "request.h"
#include "sapi.h"
#include "signals.h"
#include "worker.h"
#include <signal.h>
#include <stdlib.h>

static volatile sig_atomic_t is_interrupted;
static void (*previous_interrupt_function)(zend_execute_data *frame);

static void on_interrupt(int signal)
{
    (void)signal;
    is_interrupted = 1;
#if PHP_VERSION_ID >= 80200
    zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
#else
    EG(vm_interrupt) = 1;
#endif
}

/* The server ends its workers with GOAWAY. TERM and INT come from programs that stop a whole group of processes. */
static void on_term(int signal)
{
    (void)signal;
}

/* Runs between two instructions of PHP code. Ends the script, like exit(), if the task was cancelled. The server writes CANCEL
 * before it sends the signal. */
static void interrupted(zend_execute_data *frame)
{
    if (is_interrupted && !sapi_is_forked) {
        is_interrupted = 0;
        worker_receive(0);
        if (worker.current && worker.is_cancelled && !worker.is_ending && !EG(exception)) {
            worker.is_ending = true;
            zend_throw_unwind_exit();
        }
    }
    if (previous_interrupt_function)
        previous_interrupt_function(frame);
}

static void send_last_words(const char *class, const char *message)
{
    const char *file = zend_get_executed_filename();
    struct buffer words = {0};
    buffer_text(&words, "{\"class\":");
    buffer_json(&words, class, strlen(class));
    buffer_text(&words, ",\"message\":");
    buffer_json(&words, message, strlen(message));
    buffer_text(&words, ",\"file\":");
    buffer_json(&words, file, strlen(file));
    buffer_format(&words, ",\"line\":%u}", zend_get_executed_lineno());
    worker_event(WIRE_LAST_WORDS, 0, words.bytes, words.len);
    buffer_free(&words);
}

/* Reports where the script was, then dies. If the process is too broken for that, the second signal ends it. */
static void on_crash(int number)
{
    signal(number, SIG_DFL);
    if (worker.current && !sapi_is_forked)
        send_last_words(strsignal(number), "the process of the script crashed");
    raise(number);
}

/* A library has called exit(). */
static void on_exit_in_task(void)
{
    if (worker.current && !sapi_is_forked)
        send_last_words("exit", "a library ended the process of the script");
}

static void install(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void signals_install(void)
{
    static char stack[64 << 10];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    install(SIGUSR1, on_interrupt, 0);
    install(SIGTERM, on_term, SA_RESTART);
    install(SIGINT, on_term, SA_RESTART);
    signal(SIGPIPE, SIG_IGN);
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (size_t at = 0; at < sizeof crashes / sizeof *crashes; at++)
        install(crashes[at], on_crash, SA_ONSTACK | SA_NODEFER);
    atexit(on_exit_in_task);
}

void signals_watch(void)
{
    previous_interrupt_function = zend_interrupt_function;
    zend_interrupt_function = interrupted;
}
