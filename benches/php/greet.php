<?php
// Serves `hello.greet`, for benches/harness/http.py.
require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Worker::create()
    ->onJob('bench', fn () => null)
    ->onCall('hello.echo', fn (Stoker\Task $task) => $task->body())
    ->onCall('hello.greet', fn (Stoker\Task $task) => ['greeting' => 'Hello ' . $task->json()['name']])->run();
