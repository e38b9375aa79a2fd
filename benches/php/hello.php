<?php

// The minimal worker with the SDK: it measures what a job or a call costs in addition to its own work.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Worker::create()
    ->onJob('bench', static fn () => null)
    ->onCall('bench.echo', static fn (Stoker\Task $task) => $task->body())
    ->run();
