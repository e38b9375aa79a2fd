<?php

// Serves every queue with jobs that specify their own duration, and records when each job ran.
//
// A job's body is "number microseconds". The job sleeps instead of computing: the benchmark measures which queue gets a
// worker, and needs many more workers than CPUs. Argument: a folder. Each worker writes a file in it with three
// integers of 8 bytes per job: number, start and end in nanoseconds of the clock that all processes share.

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
