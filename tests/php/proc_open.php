<?php

// Starts a process that outlives its worker, in a session of its own.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): string {
        // The process's descriptors are closed with the worker, and the process goes on.
        $process = proc_open(['setsid', 'sleep', '1000'], [], $pipes);
        $GLOBALS['kept'] = $process;

        return (string) proc_get_status($process)['pid'];
    })
    ->onCall('t.kill', fn (Task $task) => posix_kill(getmypid(), SIGKILL))
    ->run();
