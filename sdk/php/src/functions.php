<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Child;

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
    Child::$hooks[] = $hook;
    // Stoker's PHP host forks its workers itself.
    \function_exists('stoker_after_fork') && \stoker_after_fork($hook);
}
