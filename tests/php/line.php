<?php

// Prints one long line.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.echo', function (Task $task): string {
        echo str_repeat('x', (int) $task->body()), "\n";

        return 'echoed';
    })
    ->onCall('t.write', function (Task $task): string {
        fwrite(STDOUT, str_repeat('y', (int) $task->body()) . "\n");

        return 'written';
    })
    ->run();
