<?php

// Ignores TERM, and its task never returns.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

pcntl_async_signals(true);
pcntl_signal(SIGTERM, SIG_IGN);

Worker::create()
    ->onCall('t.run', function (Task $task): void {
        for (;;) {
            sleep(1);
        }
    })
    ->run();
