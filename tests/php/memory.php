<?php

// Uses more memory than PHP's own limit allows.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

ini_set('memory_limit', '16M');

Worker::create()
    ->onCall('t.run', fn (Task $task) => strlen(str_repeat('x', (int) $task->body())))
    ->run();
