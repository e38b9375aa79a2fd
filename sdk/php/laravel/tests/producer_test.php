<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Queue\Attributes\Delay;
use Illuminate\Queue\Events\JobQueued;
use Illuminate\Support\Facades\Bus;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Queue;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;
use function Stoker\Tests\throws;

/** @var Harness $harness */

$server = new FakeServer($harness->app->storagePath() . '/server.sock');

test('dispatch() pushes a payload with the options for the server', function () use ($server): void {
    Act::dispatch(['tries' => 5, 'backoff' => [1, 60], 'timeout' => 7]);
    [$push] = $server->pushes();
    same(['default', 0, null], [$push['queue'], $push['tries'], $push['delay']]);
    same([[1000, 60000], 7000], [$push['backoff'], $push['timeout']]);
    same([Act::class, 32, null], [$push['type'], strlen($push['idempotency']), $push['key']]);
    same([Act::class, 5, '1,60', 7], array_map(
        static fn (string $key) => $push['payload'][$key],
        ['displayName', 'maxTries', 'backoff', 'timeout'],
    ));
});

test('a plain job is pushed with tries = 0, because Laravel counts them, and no other options', function () use ($server): void {
    Act::dispatch();
    [$push] = $server->pushes();
    same([0, [], null, null], [$push['tries'], $push['backoff'], $push['timeout'], $push['delay']]);
});

// Issue 9, A29
test('jobs whose payloads have the same uuid are separate jobs', function () use ($server, $harness): void {
    $uuid = static fn (): array => ['uuid' => 'fixed'];
    \Illuminate\Queue\Queue::createPayloadUsing($uuid);
    try {
        Act::dispatch();
        Act::dispatch(['tries' => 2]);
        Queue::pushRaw('{"uuid":"fixed","job":"X@y","data":[]}');
        $pushes = $server->pushes();
        same(['fixed', 'fixed', 'fixed'], array_map(static fn (array $push) => $push['payload']['uuid'], $pushes));
        same(3, count(array_unique(array_column($pushes, 'idempotency'))));
    } finally {
        \Illuminate\Queue\Queue::createPayloadUsing(null);
    }
});

test('queue and delay are taken from the job', function () use ($server): void {
    Act::dispatch()->onQueue('emails')->delay(90);
    Act::dispatch()->delay(now()->addMinutes(2));
    Queue::laterOn('reports', new \DateInterval('PT1H'), new Act());
    [$first, $second, $third] = $server->pushes();
    same(['emails', 90_000], [$first['queue'], $first['delay']]);
    holds(abs($second['delay'] - 120_000) <= 1000, "two minutes, {$second['delay']}");
    same(['reports', true], [$third['queue'], abs($third['delay'] - 3_600_000) <= 1000]);
});

// Issue 9, A29
test('with a negative delay or a time in the past, the job is due at that time', function () use ($server): void {
    $before = time();
    Queue::later(-200, new Act());
    Queue::later(now()->subMinutes(5), new Act());
    Queue::later(0, new Act());
    Queue::bulk([(new Act())->delay(-100)]);
    $pushes = $server->pushes();
    same([null, null, null, null], array_column($pushes, 'delay'));
    $ago = static fn (?int $due): ?float => $due === null ? null : $before - $due / 1000;
    [$first, $second, $third, $fourth] = array_map($ago, array_column($pushes, 'due'));
    $passed = time() - $before;
    foreach ([[200, $first], [300, $second], [100, $fourth]] as [$meant, $found]) {
        holds($found <= $meant && $found >= $meant - $passed, "$meant s ago: $found");
    }
    same(null, $third);
});

test('push() returns the id, and JobQueued has it', function () use ($server, $harness): void {
    $ids = [];
    $harness->app['events']->listen(JobQueued::class, static function (JobQueued $event) use (&$ids): void {
        $ids[] = $event->id;
    });
    $id = Queue::push(new Act());
    same([$id], $ids);
    holds(str_starts_with($id, 'id-'), "the server's own, $id");
    $harness->app['events']->forget(JobQueued::class);
    $server->pushes();
});

test('bulk() is pipelined, in order, with each job\'s own delay', function () use ($server): void {
    $jobs = array_map(static fn (int $tries) => new Act(['tries' => $tries]), range(1, 50));
    $jobs[] = (new Act())->delay(30);
    Queue::bulk($jobs, '', 'emails');
    $pushes = $server->pushes();
    same(range(1, 50), array_slice(array_column(array_column($pushes, 'payload'), 'maxTries'), 0, 50));
    same([...array_fill(0, 50, null), 30_000], array_column($pushes, 'delay'));
    same(['emails'], array_unique(array_column($pushes, 'queue')));
    $reads = count(array_unique(array_column($pushes, 'read')));
    holds($reads < 10, "51 pushes came in $reads reads");
});

test('after a failed bulk() the next push is sent on its own', function () use ($server): void {
    throws(\Exception::class, static fn () => Queue::bulk([new Act(['backoff' => static fn () => 1])]));
    same(true, is_string(Queue::push(new Act())));
    same(1, count($server->pushes()));
});

test('pushRaw() pushes a payload unchanged, as queue:retry needs', function () use ($server): void {
    Queue::pushRaw($raw = '{"uuid":"u","job":"X@y","backoff":"4","data":[]}', 'emails');
    [$push] = $server->pushes();
    same(['emails', $raw, [4000]], [$push['queue'], $push['body'], $push['backoff']]);
    same(32, strlen($push['idempotency']));
});

test('a job can set its fairness key', function () use ($server): void {
    Queue::push(new TenantAct());
    [$push] = $server->pushes();
    same(['tenant 7', 0], [$push['key'], $push['tries']]);
    Queue::pushRaw($push['body']);
    same('tenant 7', $server->pushes()[0]['key'], 'queue:retry has its payload alone');
});

test('afterCommit waits for the transaction, in bulk() too', function () use ($server): void {
    DB::transaction(function () use ($server): void {
        Act::dispatch()->afterCommit();
        Queue::bulk([(new Act())->afterCommit(), new Act()]);
        same(1, count($server->pushes()), 'pushed within the transaction');
    });
    same(2, count($server->pushes()), 'pushed after it');
});

if (class_exists(Delay::class)) {
    test('a queue can be an enum and can be forwarded; a delay can be an attribute', function () use ($server): void {
        Queue::forward('letters', 'emails', 'stoker');
        Queue::push(new Act(), '', Letters::All);
        Queue::bulk([new LateAct()], '', 'letters');
        Queue::pushRaw('{"job":"X@y","data":[]}', 'letters');
        LateAct::dispatch();
        same(
            [['emails', null], ['emails', 30_000], ['emails', null], ['default', 30_000]],
            array_map(static fn (array $push) => [$push['queue'], $push['delay']], $server->pushes()),
        );
        same(123, Queue::size('letters'));
    });
}

test('a chain pushes the next job when the first is done', function () use ($server, $harness): void {
    Bus::chain([new Act(['tries' => 1]), (new Act(['tries' => 2]))->onQueue('second')])->dispatch();
    [$first] = $server->pushes();
    same(null, $harness->run($first['body']));
    [$second] = $server->pushes();
    same(['second', 2], [$second['queue'], $second['payload']['maxTries']]);
});

test('a unique job is pushed once, until it has run or failed', function () use ($server, $harness): void {
    foreach ([null, static fn () => throw new \DomainException('no')] as $does) {
        UniqueAct::dispatch();
        UniqueAct::dispatch();
        $pushes = $server->pushes();
        same(1, count($pushes));
        Act::reset($does);
        $harness->run($pushes[0]['body']);
    }
    UniqueAct::dispatch();
    same(1, count($server->pushes()));
});

test('sizes are those that the server reports', function (): void {
    same([123, 3, 20, 100], [
        Queue::size('emails'), Queue::pendingSize('emails'), Queue::delayedSize('emails'), Queue::reservedSize('emails'),
    ]);
    holds(abs(time() - 5 - Queue::creationTimeOfOldestPendingJob('emails')) <= 1, 'the oldest was pushed five seconds ago');
    same([0, null], [Queue::size('unknown'), Queue::creationTimeOfOldestPendingJob('unknown')]);
    same([126, 4, 0], [Queue::size('@app'), Queue::pendingSize('@app'), Queue::size('@other')], 'a pool is the sum of its queues');
    same([4, 21, 101], [Queue::totalPendingSize(), Queue::totalDelayedSize(), Queue::totalReservedSize()]);
});
