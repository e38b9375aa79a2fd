<?php

// Makes PHP print a warning, which it shows on stdout by default.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): string {
        return 'answer ' . @file_get_contents('/no/such/file') . $undefined;
    })
    ->run();
