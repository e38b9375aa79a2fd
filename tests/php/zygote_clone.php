<?php

// A zygote that makes its children those of Stoker's process, as a zygote in C does.

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

    return $libc->syscall($clone, $cloneParent | SIGCHLD, null, null, null, 0);
}

$zygote = getmypid();
Worker::create()
    ->onCall('t.run', static fn (): array => ['pid' => getmypid(), 'parent' => posix_getppid(), 'zygote' => $zygote])
    ->onCall('t.dies', static fn () => posix_kill(getmypid(), SIGKILL))
    ->run();
