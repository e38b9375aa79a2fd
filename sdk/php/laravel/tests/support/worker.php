<?php

declare(strict_types=1);

// The resident worker of the end-to-end tests.

require __DIR__ . '/boot.php';

$app = require __DIR__ . '/application.php';
$worker = new Stoker\Laravel\ResidentWorker($app, sandbox: ($argv[1] ?? '') === 'sandbox');
if (getenv('STOKER_SITES') !== false) {
    $worker->onRequest();
    $app['router']->get('/hello/{name}', static function (string $name): string {
        app()->terminating(static fn () => print("after hello $name\n"));

        return "hello $name of " . getmypid() . ' at ' . url('/');
    });
    $app['router']->get('/throw', static fn () => throw new DomainException('from a request'));
}
$worker
    ->onCall('tests.sum', static fn (Stoker\Task $task): int => array_sum($task->json()))
    ->onCall('tests.throw', static fn () => throw new DomainException('from a call'))
    ->run();
