<?php

// Forks in a handler. The child returns from it, exits, or stays.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): string {
        $pid = pcntl_fork();
        if ($pid === 0) {
            echo "child prints\n";
            match ($task->body()) {
                'returns' => null,
                'exits' => exit(3),
                'stays' => sleep(1000),
            };

            return 'the child answers';
        }
        if ($task->body() !== 'stays') {
            pcntl_waitpid($pid, $status);
        }

        return 'the parent answers';
    })
    ->onCall('t.dies', fn (Task $task) => posix_kill(getmypid(), SIGKILL))
    ->run();
