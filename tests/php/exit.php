<?php

// Calls exit() in the middle of a task, with something in a buffer.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): never {
        echo 'half a line';
        exit((int) $task->body());
    })
    ->run();
