<?php
// Serves `bench.echo` over the address in STOKER_URL, for benches/harness/remote.py.
require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Worker::create(pool: 'bench')->onCall('bench.echo', fn (Stoker\Task $task) => $task->body(), idempotent: true)->run();
