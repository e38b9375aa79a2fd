<?php

// Prints wherever a worker can: at boot, in a handler, between and after its tasks.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

echo "at boot\n";
register_shutdown_function(function (): void {
    echo "at shutdown\n";
});

Worker::create()
    ->onCall('t.run', function (Task $task): string {
        echo 'in ', $task->body(), "\n";
        fwrite(STDERR, "stderr in {$task->body()}\n");

        return 'answer';
    })
    ->run();

echo "after run\n";
