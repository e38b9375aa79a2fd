<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Hooks;

/**
 * Runs a function once before Stoker forks processes from this one.
 *
 * With `strategy = "fork"` or `"snapshot"`, classes and caches that are loaded here are there in all forked processes, which would
 * otherwise load them again for each task. So let it do what a task does, without lasting effects. With other strategies
 * nothing is forked, and the function is never called.
 *
 *     Stoker\beforeFork(fn () => $kernel->handle(Request::create('/')));
 *
 * @param callable(): mixed $hook functions run in the order in which they were passed, when Worker::run() or stoker_handle() is
 *                                called. If one throws, the application has failed to boot
 */
function beforeFork(callable $hook): void
{
    Hooks::$beforeFork[] = $hook;
    // Stoker's PHP host forks its workers itself.
    \function_exists('stoker_before_fork') && \stoker_before_fork($hook);
}

/**
 * Runs a function in each process that Stoker forks from this one, before the process gets its first task.
 *
 * With `strategy = "fork"` or `"snapshot"`, an application boots once and its workers are forked from it. Use this to open what they must not
 * share: connections, sockets, files with a cursor or a lock. With other strategies nothing is forked, and the function is
 * never called.
 *
 *     Stoker\afterFork(fn () => $db->reconnect());
 *
 * @param callable(): mixed $hook functions run in the order in which they were passed. If one throws, the process ends, and
 *                                Stoker reports a failed start of a worker
 */
function afterFork(callable $hook): void
{
    Hooks::$afterFork[] = $hook;
    \function_exists('stoker_after_fork') && \stoker_after_fork($hook);
}
