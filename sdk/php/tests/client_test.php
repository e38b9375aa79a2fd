<?php

// Tests a client against a fake server that each test defines. The server runs in a separate process.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Client;
use Stoker\StokerException;
use Stoker\Wire\Frame;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/** A fake server that answers each request with the return value of $answer: [status, body, codec, meta, flags]. */
function answering(\Closure $answer, array $welcome = []): Stage
{
    return new Stage(function (Stage $stage) use ($answer, $welcome): void {
        while (true) {
            $peer = $stage->welcome($welcome);
            while ($request = $peer->next()) {
                $peer->answer($request, ...$answer($request, $stage));
            }
        }
    });
}

/** Converts a request to an array that can be encoded as JSON. */
function shown(Frame $f): array
{
    $meta = array_map('bin2hex', Meta::decode($f->meta));
    ksort($meta);

    return ['type' => $f->type, 'flags' => $f->flags, 'code' => $f->code, 'prio' => $f->prio, 'ttl' => $f->ttl, 'name' => $f->name, 'meta' => $meta, 'body' => $f->body];
}

test('client: HELLO is sent with the first request, in one write', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->accept();
        $hello = $peer->next();
        $request = $peer->next();
        $stage->report([$peer->reads, $hello->type, json_decode($hello->body, true), shown($request)]);
        $peer->send(Frame::of(Type::WELCOME, body: '{"v":1,"max_frame":16777215,"max_inflight":1024}'));
        $peer->answer($request, 0, '{"a":[1,2.0,null]}', 1);
    });
    $client = Client::connect($stage->socket, name: 'me');
    same(['a' => [1, 2.0, null]], $client->call('users.get', ['id' => 1, 'ü' => '/'], timeout: 1.5, priority: 6, key: 'tenant', meta: [0x80 => 'x']));
    [$reads, $type, $hello, $request] = $stage->heard();
    same([1, Type::HELLO], [$reads, $type]);
    same(['v' => [1], 'role' => 'client', 'name' => 'me', 'pid' => getmypid()], $hello);
    holds($request['ttl'] > 1400 && $request['ttl'] <= 1500, "ttl {$request['ttl']}");
    unset($request['ttl']);
    same(['type' => 1, 'flags' => 0, 'code' => 1, 'prio' => 6, 'name' => 'users.get', 'meta' => [5 => bin2hex('tenant'), 128 => '78'], 'body' => '{"id":1,"ü":"/"}'], $request);
});

test('client: bodies and answers of every kind', function (): void {
    $stage = answering(fn (Frame $r) => [0, $r->body, $r->code]);
    $client = Client::connect($stage->socket);
    foreach (["\0\xff", '', 'text', ['a' => 1], [], [1, [2]], 1, 1.5, true, false, 'null'] as $body) {
        same($body, $client->call('t.echo', $body));
    }
    same('', $client->call('t.echo', null));
    $big = random_bytes(5_000_000);
    holds($client->call('t.echo', $big) === $big, 'five megabytes');
});

test('client: an answer that is not valid JSON', function (): void {
    $e = throws(StokerException::class, fn () => Client::connect(answering(fn () => [0, '{', 1])->socket)->call('a.b'));
    holds(str_contains($e->getMessage(), 'is not valid JSON'), $e->getMessage());
});

test('client: each status has its exception', function (): void {
    $stage = answering(fn (Frame $r) => [(int) $r->body, "why\nand more", 0, [11 => pack('N', 1500), 14 => 'DomainException', 26 => 'a.php:7'], 0x40]);
    $client = Client::connect($stage->socket);
    $classes = [
        1 => StokerException::class, 2 => \Stoker\InDoubt::class, 3 => \Stoker\InvalidRequest::class, 4 => \Stoker\DeadlineExceeded::class,
        5 => \Stoker\NotFound::class, 6 => \Stoker\AlreadyExists::class, 7 => \Stoker\PermissionDenied::class, 8 => \Stoker\Overloaded::class,
        9 => \Stoker\InvalidRequest::class, 12 => \Stoker\NoWorker::class, 13 => StokerException::class, 14 => \Stoker\Unavailable::class,
        16 => \Stoker\PermissionDenied::class, 32 => \Stoker\NoWorker::class, 33 => \Stoker\WorkerDied::class, 34 => \Stoker\Quarantined::class,
        35 => \Stoker\Overloaded::class, 48 => StokerException::class, 64 => \Stoker\CallFailed::class, 255 => \Stoker\CallFailed::class,
    ];
    foreach ($classes as $status => $class) {
        $e = throws(StokerException::class, fn () => $client->call('a.b', (string) $status));
        same([$class, $status, 1.5, true, 'a.b: why'], [$e::class, $e->status, $e->retryAfter, $e->notProcessed, $e->getMessage()]);
    }
    $e = throws(\Stoker\CallFailed::class, fn () => $client->call('a.b', '64'));
    same(['DomainException', 'a.php:7', 'and more'], [$e->errorClass, $e->place, $e->details]);
    same(null, throws(\Stoker\AlreadyExists::class, fn () => $client->call('a.b', '6'))->jobId, 'the holder is not named');
});

// Issue 9, A5.
test('client: AlreadyExists has the id of the job that holds the unique key', function (): void {
    $id = '019a9f3c-5e00-7a1b-8c2d-0123456789ab';
    $stage = answering(fn () => [6, $id, 0, [16 => hex2bin(str_replace('-', '', $id))]]);
    $e = throws(\Stoker\AlreadyExists::class, fn () => Client::connect($stage->socket)->push('q'));
    same([$id, "stoker.push: the unique key is held by job $id"], [$e->jobId, $e->getMessage()]);
});

test('client: many calls at once: one write, answers in any order', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        while (true) {
            $reads = $peer->reads;
            $requests = [$peer->next() ?? posix_kill(getmypid(), SIGKILL), $peer->next(), $peer->next()];
            $stage->report($peer->reads - $reads);
            foreach (array_reverse($requests) as $r) {
                $r->body === 'bad' ? $peer->answer($r, 64, 'no') : $peer->answer($r, 0, "$r->name $r->body");
            }
        }
    });
    $client = Client::connect($stage->socket);
    same(['x' => 'a.one 1', 'y' => 'a.two ', 0 => 'a.three 3'], $client->callAll(['x' => ['a.one', '1'], 'y' => ['a.two'], 0 => ['a.three', '3']]));
    same(0, $stage->heard(), 'reads after that which brought HELLO');
    same('a.two: no', throws(\Stoker\CallFailed::class, fn () => $client->callAll([['a.one'], ['a.two', 'bad'], ['a.three']]))->getMessage());
    same(1, $stage->heard(), 'reads');
    [$one, $two, $three] = $client->callAll([['a.one'], ['a.two', 'bad'], ['a.three', '3']], throw: false);
    same(['a.one ', \Stoker\CallFailed::class, 'a.three 3'], [$one, $two::class, $three]);
    same([], $client->callAll([]));
});

test('client: callAsync', function (): void {
    $client = Client::connect(answering(fn (Frame $r) => [0, $r->body])->socket);
    $two = $client->callAsync('a.b', 'two');
    $one = $client->callAsync('a.b', 'one');
    same([false, false], [$one->isDone(), $two->isDone()]);
    same(['one', 'two', 'two'], [$one->await(), $two->await(), $two->await()]);
});

test('client: more calls than the limit of requests in flight', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome(['max_inflight' => 7]);
        for ($max = $open = $n = 0, $queue = []; $n < 500; $n++) {
            // Read requests until the client's limit is reached, 64 at first and 7 after WELCOME; then answer them.
            $queue[] = $peer->next();
            $max = max($max, count($queue));
            if (count($queue) === ($n < 64 ? 64 : 7) || $n === 499) {
                foreach (array_splice($queue, 0, $n === 499 ? 500 : 64) as $r) {
                    $peer->answer($r, 0, $r->body);
                }
            }
            if ($n > 64 && count($queue) > 7) {
                $stage->report('too many');
            }
        }
        $stage->report($max);
    });
    $calls = array_map(fn (int $i) => ['a.b', "n$i"], range(0, 499));
    same(array_column($calls, 1), Client::connect($stage->socket)->callAll($calls));
    same(64, $stage->heard(), 'in flight before WELCOME is known');
});

test('client: notify does not wait for an answer', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $stage->report(shown($peer->next()));
        $peer->answer($peer->next(), 0, 'still in step');
    });
    $client = Client::connect($stage->socket);
    $client->notify('log.write', ['a' => 1]);
    same(['type' => 1, 'flags' => 8, 'code' => 1, 'prio' => 3, 'ttl' => 0, 'name' => 'log.write', 'meta' => [], 'body' => '{"a":1}'], $stage->heard());
    same('still in step', $client->call('a.b'));
});

test('client: push sends all options of a job', function (): void {
    $stage = answering(function (Frame $r, Stage $stage): array {
        $stage->report(shown($r));

        return [0, '019a9f3c-5e00-7a1b-8c2d-0123456789ab'];
    });
    $client = Client::connect($stage->socket);
    same('019a9f3c-5e00-7a1b-8c2d-0123456789ab', $client->push(
        'emails',
        ['to' => 'ada'],
        delay: 30.5,
        priority: 1,
        key: 'tenant',
        tries: 5,
        backoff: [1, 10.5],
        timeout: 90,
        unique: 'u',
        idempotencyKey: 'i',
    ));
    same([
        'type' => 1, 'flags' => 16, 'code' => 1, 'prio' => 1, 'ttl' => 0, 'name' => 'stoker.push',
        'meta' => [
            5 => bin2hex('tenant'), 6 => bin2hex('i'), 17 => '0000000000007724', 18 => bin2hex('u'), 19 => '0005',
            20 => '000003e800002904', 22 => '00015f90', 24 => bin2hex('emails'),
        ],
        'body' => '{"to":"ada"}',
    ], $stage->heard());
    $client->push('emails', 'raw', new \DateTimeImmutable('2030-01-01 00:00:00.250 UTC'));
    same([23 => bin2hex(pack('J', 1893456000250)), 24 => bin2hex('emails')], $stage->heard()['meta']);
    $moment = new \DateTimeImmutable('2030-01-01 00:00:00 UTC');
    $all = ['failOnTimeout' => true, 'retryUntil' => $moment, 'maxExceptions' => 3, 'dueAt' => 1893456000.25, 'type' => 'T', 'keepResult' => 60];
    $meta = [
        23 => bin2hex(pack('J', 1893456000250)), 24 => bin2hex('q'), 28 => bin2hex(pack('J', 1893456000000)), 29 => '0003',
        30 => '', 33 => bin2hex('T'), 34 => bin2hex(pack('J', 60_000)),
    ];
    $client->pushMany('q', [1], ...$all);
    same($meta, $stage->heard()['meta']);
    $client->pushAsync('q', 1, ...$all, unique: 'u', uniqueUntilStart: true, uniqueFor: 1.5)->await();
    $with = $meta + [18 => bin2hex('u'), 31 => '', 32 => bin2hex(pack('J', 1500))];
    ksort($with);
    same($with, $stage->heard()['meta']);
});

test('client: jobs of many kinds in one round trip', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $requests = [$peer->next(), $peer->next(), $peer->next()];
        $stage->report($peer->reads);
        array_map(fn (Frame $r) => $peer->answer($r, 0, "id of $r->body"), $requests);
    });
    $client = Client::connect($stage->socket);
    $pending = [$client->pushAsync('a', 'x'), $client->pushAsync('b', 'y', delay: 3), $client->pushAsync('c', 'z', tries: 1)];
    same(['id of x', 'id of y', 'id of z'], array_map(fn (\Stoker\Pending $p) => $p->await(), $pending));
    same(1, $stage->heard(), 'reads');
});

test('client: the requests about jobs', function (): void {
    $stage = answering(function (Frame $r, Stage $stage): array {
        $ask = json_decode($r->body, true);
        $stage->report([$r->name, $ask]);
        $page = ['jobs' => [['id' => isset($ask['after']) ? 'second' : 'first']], 'next' => isset($ask['after']) ? null : 'first'];

        return [0, json_encode(($ask['op'] === 'list' || $ask['op'] === 'export' ? $page : []) + ['count' => 7, 'groups' => ['g']]), 1];
    });
    $client = Client::connect($stage->socket);
    $asks = function (mixed $want, mixed $got, array ...$asked) use ($stage): void {
        same($want, $got);
        foreach ($asked as $ask) {
            same(['stoker.job', $ask], $stage->heard());
        }
    };
    $filter = ['queue' => 'q', 'state' => 'failed', 'type' => 't', 'error' => 'E', 'fingerprint' => '0f', 'key' => 'k', 'older' => 1.5];
    $sent = ['queue' => 'q', 'state' => 'failed', 'type' => 't', 'error' => 'E', 'fingerprint' => '0f', 'key' => 'k', 'older_ms' => 1500];
    foreach (['jobs' => 'list', 'export' => 'export'] as $method => $op) {
        $ask = ['op' => $op, 'limit' => 5] + $sent;
        $asks([['id' => 'first'], ['id' => 'second']], iterator_to_array($client->$method($filter, 5)), $ask, $ask + ['after' => 'first']);
    }
    $asks(['count' => 7, 'groups' => ['g']], $client->note('i', 2), ['op' => 'show', 'id' => 'i', 'note' => 2]);
    $asks(7, $client->countJobs(), ['op' => 'count']);
    $asks(['g'], $client->failureGroups(['queue' => 'q'], 3), ['op' => 'groups', 'limit' => 3, 'queue' => 'q']);
    $asks(7, $client->retry('i', 10), ['op' => 'retry', 'id' => 'i', 'per_second' => 10]);
    $asks(7, $client->cancel(['all' => true]), ['op' => 'cancel', 'all' => true]);
    $asks(7, $client->discard($filter), ['op' => 'discard'] + $sent);
    $asks(7, $client->release('i'), ['op' => 'release', 'id' => 'i']);
    $asks(7, $client->move(['queue' => 'q'], 'r'), ['op' => 'move', 'queue' => 'q', 'to' => 'r']);
    $asks(null, $client->edit('i', ['a' => 1]), ['op' => 'edit', 'id' => 'i', 'body' => '{"a":1}', 'codec' => 1]);
    $asks(null, $client->edit('i', 'raw'), ['op' => 'edit', 'id' => 'i', 'body' => 'raw', 'codec' => 0]);
    $asks(14, $client->import(array_fill(0, 1001, ['queue' => 'q'])), ['op' => 'import', 'jobs' => array_fill(0, 1000, ['queue' => 'q'])], ['op' => 'import', 'jobs' => [['queue' => 'q']]]);
    same(0, $client->import([]));
});

test('client: a page that does not fit into a frame is requested in smaller ones', function (): void {
    $stage = answering(function (Frame $r, Stage $stage): array {
        $limit = json_decode($r->body, true)['limit'];
        $stage->report($limit);

        return $limit > 3 ? [8, 'the answer is larger than a frame: ask for less'] : [0, '{"jobs":[{"id":"a"}],"next":null}', 1];
    });
    $client = Client::connect($stage->socket);
    same([['id' => 'a']], iterator_to_array($client->export(page: 10)));
    same([10, 5, 2], [$stage->heard(), $stage->heard(), $stage->heard()]);
});

test('client: an invalid filter is rejected and never selects more jobs', function (): void {
    $client = Client::connect(answering(fn () => [0, '{"count":1}', 1])->socket);
    foreach ([[], ['stat' => 'failed', 'queue' => 'q'], ['queue' => null], ['all' => false], ['all' => true, 'queue' => 'q'], ['older' => -1], ['older' => '7d'], ['older' => '7'], ['older' => null], ['queue' => ''],
        ['key' => 42], ['type' => ['a']], ['state' => 'faild'], ['state' => ['failed']], ['all' => 1]] as $i => $filter) {
        try {
            throws(\Stoker\InvalidRequest::class, fn () => $client->cancel($filter));
        } catch (Failure $e) {
            throw new Failure("case $i: {$e->getMessage()}");
        }
    }
});

test('client: arguments out of range are never sent', function (): void {
    $stage = answering(fn () => [0, 'ok']);
    $client = Client::connect($stage->socket);
    foreach ([
        fn () => $client->call('a b'),
        fn () => $client->call(''),
        fn () => $client->call(str_repeat('n', 256)),
        fn () => $client->call('a.b', timeout: 0),
        fn () => $client->call('a.b', timeout: -1),
        fn () => $client->call('a.b', timeout: NAN),
        fn () => $client->call('a.b', priority: 8),
        fn () => $client->call('a.b', key: ''),
        fn () => $client->call('a.b', ['f' => STDERR]),
        fn () => $client->call('a.b', meta: [0 => 'x']),
        fn () => $client->call('a.b', meta: [0x80 => str_repeat('x', 70_000)]),
        fn () => $client->call('a.b', str_repeat('x', 1 << 24)),
        fn () => $client->push('no queue'),
        fn () => $client->push('q', delay: -1),
        fn () => $client->push('q', tries: 65536),
        fn () => $client->push('q', backoff: [1, -1]),
        fn () => $client->push('q', backoff: ['1s']),
        fn () => $client->push('q', backoff: array_fill(0, 101, 1)),
        fn () => $client->push('q', timeout: 0),
        fn () => $client->push('q', unique: str_repeat('u', 201)),
        fn () => $client->push('q', uniqueFor: 1),
        fn () => $client->push('q', uniqueUntilStart: true),
        fn () => $client->push('q', unique: 'u', uniqueFor: 0),
        fn () => $client->push('q', delay: 1, dueAt: 1),
        fn () => $client->push('q', maxExceptions: 0),
        fn () => $client->push('q', type: str_repeat('t', 256)),
        fn () => $client->push('q', retryUntil: -1),
    ] as $i => $wrong) {
        try {
            throws(\Stoker\InvalidRequest::class, $wrong);
        } catch (Failure $e) {
            throw new Failure("case $i: {$e->getMessage()}");
        }
    }
    same('ok', $client->call('a.b'), 'the connection is still usable');
});

test('client: pushMany', function (): void {
    $stage = answering(fn (Frame $r) => [0, 'id-' . $r->body], ['max_inflight' => 100]);
    $bodies = (function (): \Generator {
        for ($i = 0; $i < 20_000; $i++) {
            yield "k$i" => "b$i";
        }
    })();
    $ids = Client::connect($stage->socket)->pushMany('q', $bodies);
    same([20_000, 'id-b0', 'id-b19999', 'k19999'], [count($ids), $ids['k0'], $ids['k19999'], array_key_last($ids)]);
});

test('client: pushMany with a server that reads only while the client reads', function (): void {
    // The server answers each push with 16 KiB and blocks while the client does not read, so a client that only
    // writes would wait forever.
    $stage = answering(fn (Frame $r) => [0, str_repeat($r->body[0], 16_000)], ['max_inflight' => 1024]);
    $bodies = array_fill(0, 3000, str_repeat('x', 16_000));
    $ids = Client::connect($stage->socket)->pushMany('q', $bodies);
    same([3000, 16_000], [count($ids), strlen($ids[2999])]);
});

test('client: small requests to a server that reads only after its answers have been read', function (): void {
    $stage = answering(fn (Frame $r) => [0, str_repeat('a', (int) $r->body)]);
    $client = Client::connect($stage->socket);
    $large = [$client->callAsync('a.b', '4000000'), $client->callAsync('a.b', '4000000')];
    $client->notify('a.b', '1');
    for ($i = 0; $i < 2000; $i++) {
        $client->notify('a.b', '000000000000000000000000' . str_repeat(' ', 500)); // More than the socket's buffer holds.
    }
    same([4_000_000, 4_000_000, 7], [strlen($large[0]->await()), strlen($large[1]->await()), strlen($client->call('a.b', '7'))]);
});

test('client: a large request waits for WELCOME, which states the maximum size', function (): void {
    $stage = answering(fn (Frame $r) => [0, (string) strlen($r->body)], ['max_frame' => 70_000]);
    throws(\Stoker\InvalidRequest::class, fn () => Client::connect($stage->socket)->call('a.b', str_repeat('x', 70_000)));
    same('69900', Client::connect($stage->socket)->call('a.b', str_repeat('x', 69_900)));
});

test('client: pushMany stops at a failure and returns the accepted ids', function (): void {
    $stage = answering(fn (Frame $r) => $r->body === 'bad' ? [32, 'no pool serves q', 0, [], 0x40] : [0, "id-$r->body"]);
    $e = throws(\Stoker\NoWorker::class, fn () => Client::connect($stage->socket)->pushMany('q', ['a' => '1', 'b' => 'bad', 'c' => '3']));
    same(['a' => 'id-1', 'c' => 'id-3'], $e->accepted);
    same(true, $e->notProcessed);
});

test('client: the requests about queues, workers and pools', function (): void {
    $stage = answering(function (Frame $r): array {
        $body = json_decode($r->body, true);

        return match ("$r->name {$body['op']}") {
            'stoker.job show' => $body['id'] === 'none' ? [5, 'no such job'] : [0, '{"id":"x","state":"done"}', 1],
            'stoker.queue list' => [0, '{"queues":[{"name":"q"}]}', 1],
            'stoker.worker list' => [0, '{"workers":[{"id":"app-1"}],"pools":[{"name":"app"}]}', 1],
            'stoker.queue pause', 'stoker.queue resume' => $body['queue'] === 'q' ? [0, '{"queue":"q","paused":true}', 1] : [7, 'not yours'],
            'stoker.pool reload' => [0, '{"pools":[]}', 1],
        };
    });
    $client = Client::connect($stage->socket);
    same([null, ['id' => 'x', 'state' => 'done']], [$client->job('none'), $client->job('x')]);
    same([[['name' => 'q']], [['id' => 'app-1']], [['name' => 'app']]], [$client->queues(), $client->workers(), $client->pools()]);
    $client->pause('q');
    $client->resume('q');
    throws(\Stoker\PermissionDenied::class, fn () => $client->pause('r'));
    same([['pools' => []], ['pools' => []]], [$client->admin('pool', ['op' => 'reload']), $client->admin('stoker.pool', ['op' => 'reload'])]);
});

test('client: without a server the message names the socket', function (): void {
    $e = throws(\Stoker\ConnectionRefused::class, fn () => Client::connect('/nonexistent/stoker.sock'));
    holds(str_contains($e->getMessage(), '/nonexistent/stoker.sock') && str_contains($e->getMessage(), 'STOKER_SOCKET'), $e->getMessage());
    same(true, $e->notProcessed);
    putenv('STOKER_SOCKET=/also/nonexistent.sock');
    $e = throws(\Stoker\ConnectionRefused::class, fn () => Client::connect());
    putenv('STOKER_SOCKET');
    holds(str_contains($e->getMessage(), '/also/nonexistent.sock'), $e->getMessage());
    holds(str_contains(throws(\Stoker\ConnectionRefused::class, fn () => Client::connect())->getMessage(), './stoker.sock'), 'the default');
});

test('client: HELLO names the worker in which the client runs', function (): void {
    putenv('STOKER_WORKER=app-3');
    try {
        $stage = new Stage(function (Stage $stage): void {
            $stage->report($stage->accept()->welcome());
        });
        $client = Client::connect($stage->socket);
        $client->notify('a.b');
        same('app-3', $stage->heard()['worker']);
    } finally {
        putenv('STOKER_WORKER');
    }
});
