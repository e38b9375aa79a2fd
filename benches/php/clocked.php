<?php

// Serves every queue with jobs that say themselves how long they take, and writes down when each ran.
//
// A job's body is "number microseconds". It is slept, not computed: what is measured is who gets a worker, and many
// more workers than processors must be able to have one. Argument: the folder, which gets a file for each worker, with
// three integers of 8 bytes for each job: number, start and end in nanoseconds of the clock that all processes share.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

$file = fopen(($argv[1] ?? throw new RuntimeException('usage: clocked.php FOLDER')) . '/' . getmypid() . '.times', 'ab');

Stoker\Worker::create()
    ->onJob('*', static function (Stoker\Task $task) use ($file): void {
        $start = hrtime(true);
        [$number, $microseconds] = explode(' ', $task->body());
        if ($microseconds > 0) {
            usleep((int) $microseconds);
        }
        fwrite($file, pack('JJJ', (int) $number, $start, hrtime(true)));
    })
    ->run();
