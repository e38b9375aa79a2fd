<?php

// Tests the worker and the client of this SDK with a real server. Skipped if the server has not been built.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\AlreadyExists;

$binary = Server::binary();
if ($binary === null) {
    echo "stoker has not been built: the tests with a real server are skipped.\n";

    return;
}

test('live: an acknowledged job stays done, however its run ends', function () use ($binary): void {
    $server = new Server($binary);
    $ids = $server->client->pushMany('acks', ['throw', 'kill']);
    same(['done', 'done'], array_map(fn (string $id) => $server->end($id)['state'], $ids));
    // There is only one worker, and it would run the first two jobs again before this one.
    $server->end($server->client->push('acks', 'return'));
    same([1, 1, 1], [$server->runs('throw'), $server->runs('kill'), $server->runs('return')]);
});

test('live: the next run gets the checkpoint, and its return value is the result', function () use ($binary): void {
    $server = new Server($binary);
    $job = $server->end($server->client->push('saves', tries: 3, backoff: [0]));
    same(['done', '{"was":["at 2",3]}', 33], [$job['state'], $job['result'], (int) $job['progress']['percent']]);
});

test('live: a result of 64 KiB is kept, a larger one is dropped and logged', function () use ($binary): void {
    $server = new Server($binary);
    same(65536, strlen($server->end($server->client->push('big', '65536'))['result']));
    $job = $server->end($server->client->push('big', '65537'));
    same(['done', null], [$job['state'], $job['result']]);
    holds(str_contains($job['output'], '65537 bytes exceeds the maximum'), $job['output']);
});

test('live: the options of a push', function () use ($binary): void {
    $server = new Server($binary);
    $c = $server->client;
    $c->pause('quiet');
    $id = $c->push('quiet', 'x', unique: 'u', uniqueFor: 100, type: 'T', retryUntil: time() + 50, maxExceptions: 2, failOnTimeout: true, key: 'k', tries: 4);
    same($id, throws(AlreadyExists::class, fn () => $c->push('quiet', 'x', unique: 'u'))->jobId);
    $job = $c->job($id);
    same(['T', 4, 'k', 'ready'], [$job['type'], $job['tries'], $job['key'], $job['state']]);
    same($c->push('quiet', idempotencyKey: 'i'), $c->push('quiet', idempotencyKey: 'i'));
    same('failed', $server->end($c->push('fails', maxExceptions: 1, tries: 9))['state']);
    same('failed', $server->end($c->push('fails', retryUntil: time() - 1, tries: 9))['state']);
    same(null, $c->job('019a9f3c-5e00-7a1b-8c2d-0123456789ab'));
});

test('live: the operations on jobs for operators', function () use ($binary): void {
    $server = new Server($binary);
    $c = $server->client;
    $ids = $c->pushMany('fails', ['a', 'b', 'c'], type: 'T');
    array_map($server->end(...), $ids);
    [$group] = $c->failureGroups();
    same([3, 'fails', 'DomainException'], [$group['count'], $group['queue'], $group['error']['class']]);
    same([3, 0], [$c->countJobs(['fingerprint' => $group['fingerprint']]), $c->countJobs(['type' => 'other'])]);
    same($ids, array_column(iterator_to_array($c->jobs(['type' => 'T'], 2), false), 'id'));
    $c->edit($ids[0], 'well');
    same([1, 1], [$c->retry($ids[0]), $c->discard($ids[1])]);
    same(['done', null], [$server->end($ids[0])['state'], $c->job($ids[1])]);
    $delayed = $c->push('quiet', ['n' => 1], delay: 1000);
    $exported = iterator_to_array($c->export(['queue' => 'quiet']), false);
    same(['{"n":1}', 'delayed'], [$exported[0]['body'], $exported[0]['state']]);
    same(2, $c->import([...$exported, ...$exported]));
    same(3, $c->move(['queue' => 'quiet'], 'saves'));
    same([2, 3], [$c->cancel(['queue' => 'saves', 'state' => 'delayed']) - 1, $c->discard(['state' => 'cancelled'])]);
    same(null, $c->job($delayed));
    $late = $c->push('quiet', 'y', delay: 1000);
    same([1, 'done'], [$c->release($late), $server->end($late)['state']]);
});

foreach (['spare', 'fork'] as $strategy) {
    test("live: with the strategy $strategy each job runs in its own process", function () use ($binary, $strategy): void {
        $server = new Server($binary, "strategy = \"$strategy\"");
        $ids = $server->client->pushMany('pids', array_fill(0, 5, ''));
        $pids = array_map(fn (string $id): string => $server->end($id)['result'], $ids);
        same(5, count(array_unique($pids)), implode(' ', $pids));
        $log = $server->log();
        holds(!str_contains($log, 'is ready') && !str_contains($log, 'has ended'), "no log lines for each process:\n$log");
    });
}
