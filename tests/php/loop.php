<?php

// Never ends, and can't be interrupted.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): void {
        for (;;) {
        }
    })
    ->onCall('t.ok', fn (Task $task) => 'ok')
    ->run();
