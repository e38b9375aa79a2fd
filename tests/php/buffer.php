<?php

// Leaves output buffers open, and closes buffers that it did not open.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.open', function (Task $task): string {
        ob_start();
        echo 'left in a buffer of ', $task->body(), "\n";

        return 'open';
    })
    ->onCall('t.close', function (Task $task): string {
        while (ob_get_level() > 0) {
            ob_end_clean();
        }

        return 'closed';
    })
    ->onCall('t.echo', function (Task $task): string {
        echo 'plain ', $task->body(), "\n";

        return 'plain';
    })
    ->run();
