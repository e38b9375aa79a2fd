<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Stoker\Tests\Server;

use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Harness $harness */

$binary = Server::binary();
if ($binary === null) {
    echo "stoker has not been built: the end-to-end tests are skipped.\n";

    return;
}

$live = new Live($binary, $harness->app['queue']->connection('live'));
$story = $live->story;

// All topics share one server and run in this order; the last test shuts it down.
foreach (['runs', 'failed_jobs', 'limits', 'both_ways', 'operation', 'queue_work', 'by_hand', 'workers', 'requests'] as $topic) {
    require __DIR__ . "/live/$topic.php";
}

test('live: the server drains, finishes running jobs, and exits', function () use ($live, $story): void {
    $go = getenv('APP_STORAGE') . '/go-drain';
    $live->queue->bulk([new Scripted('drain1', ["await $go"]), new Scripted('drain2', ["await $go"])]);
    $live->queue->push(new Scripted('drain3', ["await $go"]), '', 'pop');
    array_map(static fn (int $n) => $story->await("drain$n run 1"), [1, 2, 3]);
    $live->terminate();
    touch($go);
    same(true, $live->stop());
    array_map(static fn (int $n) => same(['run 1', 'end'], $story->of("drain$n")), [1, 2, 3]);
});
