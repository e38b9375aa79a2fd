<?php

// Ends after a task by its own decision.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): int {
        Worker::stop();

        return getmypid();
    })
    ->run();
