<?php

// Decides the outcome of its jobs in every possible way.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onJob('done', fn (Task $task) => print "{$task->jobId()} attempt {$task->attempts()}\n")
    ->onJob('release', fn (Task $task) => $task->attempts() < 3 ? $task->release(0.05) : null)
    ->onJob('fail', fn (Task $task) => $task->fail('it makes no sense'))
    ->onJob('flaky', fn (Task $task) => $task->attempts() < 3 ? throw new RuntimeException('not yet') : null)
    ->onJob('crash', fn (Task $task) => $task->crashes() === 0 ? posix_kill(getmypid(), SIGKILL) : null)
    ->run();
