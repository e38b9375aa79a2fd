<?php

// Calls Stoker from within a handler.

declare(strict_types=1);

use Stoker\Client;
use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.outer', function (Task $task): array {
        $stoker = Client::connect();
        try {
            return ['inner' => $stoker->call('t.inner'), 'job' => $stoker->push('mails', ['to' => 'x'])];
        } catch (Stoker\StokerException $error) {
            return ['error' => $error::class, 'message' => $error->getMessage()];
        }
    })
    ->onCall('t.inner', fn (Task $task) => ['left' => round($task->remaining(), 3)])
    ->onJob('mails', fn (Task $task) => print "mail to {$task->json()['to']}\n")
    ->run();
