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
        // The shell says that it runs: before its exec it would still have our signal handlers.
        $child = proc_open(['sh', '-c', 'echo; exec sleep 1000'], [1 => ['pipe', 'w']], $pipes);
        fgets($pipes[1]);
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
