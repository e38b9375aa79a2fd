<?php

// Waits at a gate in its task, and prints how a child ends that it signals.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', fn (Task $task): string => file_get_contents('gate') . 'finished')
    ->onCall('t.ok', fn (Task $task): string => 'ok')
    ->onCall('t.child', function (Task $task): int {
        $child = proc_open(['sleep', '1000'], [], $pipes);
        $pid = proc_get_status($child)['pid'];
        while (!str_starts_with(file_get_contents("/proc/$pid/cmdline"), 'sleep')) {
            usleep(1000); // Before its exec the child still has our signal handlers.
        }
        proc_terminate($child);
        while (($status = proc_get_status($child))['running']) {
            usleep(1000);
        }

        return $status['termsig'];
    })
    ->onCall('t.fork', function (Task $task): int {
        if (($pid = pcntl_fork()) === 0) {
            for (;;) {
                usleep(1000);
            }
        }
        posix_kill($pid, SIGTERM);
        pcntl_waitpid($pid, $status);

        return pcntl_wtermsig($status);
    })
    ->onJob('mails', fn (Task $task) => print file_get_contents('gate') . "attempt {$task->attempts()}\n")
    ->run();
