<?php

// Runs into an error that PHP code can't catch.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): void {
        eval('class Twice {} class Twice {}');
    })
    ->run();
