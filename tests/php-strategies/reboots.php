<?php

// Boots again when a task asks for it, with the worker of the SDK by each strategy.

declare(strict_types=1);

use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

$zygote = getmypid();
Worker::create()
    ->onCall('t.run', static fn (): string => (string) $zygote)
    ->onCall('t.reboot', static function () use ($zygote): string {
        Worker::reboot();

        return (string) $zygote;
    })
    ->run();
