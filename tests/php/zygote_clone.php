<?php

// A zygote that makes its children those of Stoker's process, as a zygote in C does. With an argument, it reports each
// child that many milliseconds later.

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

/** Takes the place of PHP's function in this namespace. */
function pcntl_fork(): int
{
    static $libc = null;
    $libc ??= \FFI::cdef('long syscall(long number, long flags, void *stack, void *parent, void *child, long tls);');
    $clone = php_uname('m') === 'x86_64' ? 56 : 220;
    $cloneParent = 0x8000;

    $pid = $libc->syscall($clone, $cloneParent | SIGCHLD, null, null, null, 0);
    if ($pid > 0) {
        usleep(1000 * (int) ($_SERVER['argv'][1] ?? 0));
    }

    return $pid;
}

$zygote = getmypid();
Worker::create()
    ->onCall('t.run', static fn (): array => ['pid' => getmypid(), 'parent' => posix_getppid(), 'zygote' => $zygote])
    ->onCall('t.dies', static fn () => posix_kill(getmypid(), SIGKILL))
    ->run();
