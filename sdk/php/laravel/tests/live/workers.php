<?php

// Calls, queue sizes, and queue:work with other connections.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Queue\Jobs\InspectedJob;
use Illuminate\Support\Collection;
use Stoker\CallFailed;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;
use function Stoker\Tests\throws;

/** @var Harness $harness */
/** @var Live $live */
/** @var Story $story */

test('live: the same workers answer calls', function () use ($live): void {
    same(6, $live->client->call('tests.sum', [1, 2, 3]));
    $e = throws(CallFailed::class, static fn () => $live->client->call('tests.throw'));
    same('DomainException', $e->errorClass);
});

test('live: size() counts waiting jobs', function () use ($live, $story): void {
    $live->client->pause('sized');
    $live->queue->bulk([new Scripted('sized1', []), new Scripted('sized2', [])], '', 'sized');
    $live->queue->laterOn('sized', 60, new Scripted('sized3', []));
    same([3, 2, 1, 0], [
        $live->queue->size('sized'), $live->queue->pendingSize('sized'),
        $live->queue->delayedSize('sized'), $live->queue->reservedSize('sized'),
    ]);
    $printed = $live->artisan('queue:monitor', 'live:sized,live:@pop', '--max=3');
    holds(preg_match('/sized.*3\D.*ALERT/', $printed) === 1 && preg_match('/@pop.*0\D.*OK/', $printed) === 1, $printed);
    if (class_exists(InspectedJob::class)) {
        $names = static fn (Collection $jobs): array => $jobs->map(static fn (InspectedJob $job) => "$job->name $job->queue")->all();
        $name = Scripted::class . ' sized';
        same([[$name, $name], [$name], []], array_map($names, [
            $live->queue->pendingJobs('sized'), $live->queue->delayedJobs('sized'), $live->queue->reservedJobs('sized'),
        ]));
        same([2, 1, 0], [$live->queue->allPendingJobs()->count(), $live->queue->allDelayedJobs()->count(), $live->queue->allReservedJobs()->count()]);
    }
    $live->client->resume('sized');
    $story->await('sized2 end');
});

foreach (['spare' => 'spared', 'fork' => 'forked'] + ($live->hasHost() ? ['snapshot' => 'snapshots'] : []) as $strategy => $queue) {
    test("live: with the strategy $strategy each run has its own process, which was booted before", function () use ($live, $story, $queue): void {
        $pids = [];
        foreach (["{$queue}1", "{$queue}2", "{$queue}3"] as $name) {
            $live->queue->pushOn($queue, new Scripted($name, ['pid']));
            $story->await("$name end");
            $pids[] = $story->of($name)[1];
        }
        same(3, count(array_unique($pids)), implode(' ', $pids));
        $live->queue->pushOn($queue, (new Scripted("{$queue}4", ['throw', 'kill', 'pid']))->with(tries: 3));
        $story->await("{$queue}4 end");
        // The death of a process does not count as an attempt.
        same(['run 1', 'run 2', 'run 2'], array_slice($story->of("{$queue}4"), 0, 3));
    });
}

test('stock: queue:work of another connection is watched, and a reload lets it finish', function () use ($live, $story, $harness): void {
    $go = getenv('APP_STORAGE') . '/go-stock';
    $database = $harness->app['queue']->connection('database');
    $database->push(new Scripted('stock1', ["await $go"]));
    $story->await('stock1 run 1');
    $worker = static fn () => array_values(array_filter($live->client->workers(), static fn (array $one) => $one['pool'] === 'stock'))[0];
    $old = $worker();
    same('ready', $old['state']);
    touch($go);
    $start = microtime(true);
    $live->reload('stock');
    holds(microtime(true) - $start < 5, 'it went when it was told, not when it was killed');
    $story->await('stock1 end');
    $database->push(new Scripted('stock2', ['pid']));
    $story->await('stock2 end');
    same([true, "pid {$worker()['pid']}"], [$worker()['pid'] !== $old['pid'], $story->of('stock2')[1]]);
});

test('stock: a worker that exits above its memory limit, with code 12, is replaced at once', function () use ($live, $story, $harness): void {
    $database = $harness->app['queue']->connection('database');
    $pids = [];
    foreach ([1, 2, 3] as $n) {
        $database->pushOn('heavy', new Scripted("heavy$n", ['pid']));
        $story->await("heavy$n end");
        $pids[] = $story->of("heavy$n")[1];
    }
    same(3, count(array_unique($pids)));
    $log = file_get_contents(getenv('APP_STORAGE') . '/stoker.log');
    holds(preg_match('/ info heavy-\d+ has ended \(exit code 12\)/', $log) === 1, 'that is no fault');
    holds(!preg_match('/heavy-\d+ (ended before|did not become)/', $log), 'nor a failed boot');
});
