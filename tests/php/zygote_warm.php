<?php

// Warms up before its processes are forked.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

$warm = 0;
Stoker\beforeFork(function () use (&$warm): void {
    echo "warming up\n";
    $warm++;
});
Stoker\Worker::create()
    ->onCall('t.run', function () use (&$warm): string {
        return "warm $warm";
    })
    ->run();
