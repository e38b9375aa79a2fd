<?php
// Serves the calls of tests/fpm/script.php.

require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Worker::create()
    ->onCall('fpm.echo', fn (Stoker\Task $task) => $task->body(), idempotent: true)
    ->onCall('fpm.slow', function (Stoker\Task $task): string {
        usleep(30_000);

        return $task->body();
    })
    ->run();
