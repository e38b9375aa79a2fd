<?php

// Never ends, but has requested an interruption at its deadline.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->softCancel()
    ->onCall('t.run', function (Task $task): void {
        $task->log('spins');
        for (;;) {
        }
    })
    ->onCall('t.tidy', function (Task $task): string {
        try {
            sleep(10);
        } catch (Stoker\TaskTimeout) {
            return 'tidied up';
        }

        return 'slept';
    })
    ->onCall('t.ok', fn (Task $task) => getmypid())
    ->run();
