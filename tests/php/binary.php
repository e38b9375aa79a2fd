<?php

// Prints and answers bytes that are not text.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): string {
        echo "\x00\xff\x1b[31m red\n";

        return implode('', array_map('chr', range(0, 255))) . $task->body();
    })
    ->run();
