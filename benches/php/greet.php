<?php
// Serves `hello.greet`, for benches/harness/http.py.
require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Worker::create()->onCall('hello.greet', fn (Stoker\Task $task) => ['greeting' => 'Hello ' . $task->json()['name']])->run();
