<?php

// Jobs that record when they started, in nanoseconds of the clock that all processes share. Argument: the file.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

$file = fopen($argv[1] ?? throw new RuntimeException('usage: pickup.php FILE'), 'ab');

Stoker\Worker::create()
    ->onJob('bench', static function () use ($file): void {
        fwrite($file, pack('J', hrtime(true)));
    })
    ->run();
