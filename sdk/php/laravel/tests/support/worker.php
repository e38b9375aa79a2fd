<?php

declare(strict_types=1);

// The resident worker of the end-to-end tests.

require __DIR__ . '/boot.php';

(new Stoker\Laravel\ResidentWorker(require __DIR__ . '/application.php', sandbox: ($argv[1] ?? '') === 'sandbox'))
    ->onCall('tests.sum', static fn (Stoker\Task $task): int => array_sum($task->json()))
    ->onCall('tests.throw', static fn () => throw new DomainException('from a call'))
    ->run();
