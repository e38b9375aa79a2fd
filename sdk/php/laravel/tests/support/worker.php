<?php

declare(strict_types=1);

// The worker of the end-to-end tests.

error_reporting(E_ALL & ~E_DEPRECATED);
require getenv('LARAVEL_AUTOLOAD') ?: 'Illuminate/autoload.php';
require __DIR__ . '/../../autoload.php';
require __DIR__ . '/Story.php';
require __DIR__ . '/Scripted.php';

(new Stoker\Laravel\ResidentWorker(require __DIR__ . '/application.php'))
    ->onCall('tests.sum', static fn (Stoker\Task $task): int => array_sum($task->json()))
    ->onCall('tests.throw', static fn () => throw new DomainException('from a call'))
    ->run();
