<?php

// The least that a worker can do, with the SDK: what a job or a call costs beyond its own work.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Worker::create()
    ->onJob('bench', static fn () => null)
    ->onCall('bench.echo', static fn (Stoker\Task $task) => $task->body())
    ->run();
