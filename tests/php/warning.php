<?php

// Makes PHP warn, with warnings shown on stdout as they are by default.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): string {
        return 'answer ' . @file_get_contents('/no/such/file') . $undefined;
    })
    ->run();
