<?php

// Tests a real worker process, with the test as its server. Each test checks one behaviour.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

test('worker: HELLO lists the calls and queues that it serves', function (): void {
    $hello = (new Probe(['star']))->hello;
    same([[1], 'worker', 1, false], [$hello['v'], $hello['role'], $hello['slots'], $hello['soft_cancel']]);
    holds(in_array('t.echo', $hello['calls'], true) && in_array('t.json', $hello['calls'], true), 'calls');
    same(['t.echo'], $hello['idempotent']);
    holds(in_array('7', $hello['jobs'], true) && in_array('*', $hello['jobs'], true), 'jobs are strings');
    same('worker.php', $hello['name']);
    holds(!isset($hello['pool']) && !isset($hello['token']), 'a spawned worker names no pool');
});

test('worker: a string is returned unchanged, everything else as JSON', function (): void {
    $probe = (new Probe())->welcome();
    $echo = $probe->ask(Probe::call('t.echo', "\0\xff bytes"));
    same([0, 0, "\0\xff bytes"], [$echo->code, $echo->prio, $echo->body]);
    holds($echo->ttl >= 1, 'µs worked');
    $json = $probe->ask(Probe::call('t.json', '{"a":["ü/",1.0,null]}', 4294967295));
    same([0, 1, '{"a":["ü/",1.0,null]}'], [$json->code, $json->prio, $json->body]);
    $null = $probe->ask(Probe::call('t.null'));
    same([0, 1, 'null'], [$null->code, $null->prio, $null->body]);
});

test('worker: frames may be split at any byte', function (): void {
    $probe = (new Probe())->welcome();
    $bytes = Probe::call('t.echo', 'one', 1)->encode() . Probe::call('t.echo', str_repeat('y', 300), 2)->encode();
    foreach (str_split($bytes, 7) as $piece) {
        $probe->send($piece);
    }
    same(['one', 300], [$probe->next()->body, strlen($probe->next()->body)]);
});

test('worker: a call with a body of one megabyte', function (): void {
    $probe = (new Probe())->welcome();
    $body = random_bytes(1 << 20);
    holds($probe->ask(Probe::call('t.echo', $body))->body === $body, 'the same megabyte');
});

test('worker: an answer larger than max_frame becomes an error answer', function (): void {
    $probe = (new Probe())->welcome(['max_frame' => 1000]);
    same([0, 970], [($ok = $probe->ask(Probe::call('t.big', '97')))->code, strlen($ok->body)]);
    $big = $probe->ask(Probe::call('t.big', '100'));
    same([64, 'the answer has 1000 bytes, the maximum is 984'], [$big->code, $big->body]);
});

test('worker: an exception of a call', function (): void {
    $probe = (new Probe())->welcome();
    $fixture = __DIR__ . '/fixtures/worker.php';
    $answer = $probe->ask(Probe::call('t.throw'));
    $meta = Meta::decode($answer->meta);
    same([64, 0, 'DomainException'], [$answer->code, $answer->prio, $meta[14]]);
    holds((bool) preg_match('~/worker\.php:\d+$~', $meta[26]), 'place: ' . $meta[26]);
    same("first line\nsecond line\n#0 {$fixture}(33): thrower()", preg_replace('/\(\d+\)/', '(33)', $answer->body));
    same('RuntimeException@anonymous', Meta::decode($probe->ask(Probe::call('t.anonymous'))->meta)[14]);
    same('ArgumentCountError', Meta::decode($probe->ask(Probe::call('t.error'))->meta)[14]);
    same('JsonException', Meta::decode($probe->ask(Probe::call('t.resource'))->meta)[14]);
    same('JsonException', Meta::decode($probe->ask(Probe::call('t.json', '{'))->meta)[14]);
    same(16384, strlen($probe->ask(Probe::call('t.long'))->body));
    same('still here', $probe->ask(Probe::call('t.echo', 'still here'))->body);
});

test('worker: the handler decides the outcome of a job', function (): void {
    $probe = (new Probe())->welcome();
    $end = function (string $queue, string $body = '') use ($probe): array {
        $answer = $probe->ask(Probe::job($queue, $body));
        $meta = Meta::decode($answer->meta);

        isset($meta[26]) && holds(str_contains($meta[26], 'worker.php:'), 'the place is the handler\'s: ' . $meta[26]);

        return [$answer->code, strtok($answer->body, "\n"), $meta[14] ?? null, Meta::int($meta[11] ?? null)];
    };
    same([0, false, null, null], $end('nothing'));
    same([0, '{"n":1}', null, null], $end('result'));
    same([48, 'not now', 'Stoker\Retry', 1500], $end('release', '1.5'));
    same([48, 'not now', 'Stoker\Retry', 0], $end('release', '0'));
    same([48, 'released', 'Stoker\Retry', null], $end('release.default'));
    same([48, 'cause', 'OutOfRangeException', 2500], $end('retry'));
    same([49, 'no good', 'Stoker\Fail', null], $end('fail'));
    same([49, 'full', 'OverflowException', null], $end('fail.throwable'));
    same([49, 'gone', 'Stoker\Fail', null], $end('fail.thrown'));
    same([64, 'bad job', 'DomainException', null], $end('throw'));
    same([0, 'seven', null, null], $end('7'));
});

test('worker: a call cannot be released, acknowledged or checkpointed', function (): void {
    $probe = (new Probe())->welcome();
    foreach (['t.release', 't.ack', 't.save'] as $call) {
        same('LogicException', Meta::decode($probe->ask(Probe::call($call))->meta)[14], $call);
    }
});

test('worker: ack() waits for the confirmation and keeps other frames that arrive', function (): void {
    $probe = (new Probe(['star']))->welcome();
    $probe->send(Probe::job('ack', '', 5));
    $ack = $probe->next();
    same([Type::EVENT, 6, 5, ''], [$ack->type, $ack->code, $ack->id, $ack->body]);
    // The worker answers the PING, so it reads; and its handler has not continued, or its output would precede the
    // PONG.
    $probe->send(
        Probe::job('other', '', 6),
        Probe::job('other', '', 7),
        Frame::of(Type::CANCEL, id: 7),
        Frame::of(Type::EVENT, code: 6, id: 6),
        Frame::of(Type::PING, id: 9),
    );
    same([Type::PONG, 9], [($pong = $probe->next())->type, $pong->id]);
    $probe->send(Frame::of(Type::EVENT, code: 6, id: 5)->encode() . substr(Probe::job('other', '', 8)->encode(), 0, 9));
    same("acked true\n", $probe->next()->body);
    $answers = array_map(fn (Frame $f) => "$f->type:$f->id:$f->code $f->body", [$probe->next(), $probe->next(), $probe->next()]);
    same(['2:5:0 done', '2:6:0 any: other', '2:7:1 cancelled before it started'], $answers);
    $probe->send(substr(Probe::job('other', '', 8)->encode(), 9));
    same([8, 'any: other'], [($last = $probe->next())->id, $last->body]);
});

test('worker: after ack() a job cannot be released, and its exception is reported', function (): void {
    $probe = (new Probe())->welcome();
    foreach (['release' => 'LogicException', 'throw' => 'DomainException'] as $body => $class) {
        $probe->send(Probe::job('ack', $body, 3));
        same(6, $probe->next()->code);
        $probe->send(Frame::of(Type::EVENT, code: 6, id: 3));
        same("acked true\n", $probe->next()->body);
        $answer = $probe->next();
        same([64, $class], [$answer->code, Meta::decode($answer->meta)[14]]);
    }
});

test('worker: ack() throws ConnectionLost if the connection ends before the confirmation', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::job('ack', '', 3));
    $probe->next();
    $probe->halfClose();
    $answer = $probe->next();
    same([64, 'Stoker\ConnectionLost'], [$answer->code, Meta::decode($answer->meta)[14]]);
    same(0, $probe->exitCode());
});

test('worker: rest() ends after its time, or at once if the worker must exit', function (): void {
    $probe = (new Probe(['star']))->welcome();
    same('true', $probe->ask(Probe::job('rest', '0.01'))->body);
    $probe->send(Probe::job('rest', '60', 2));
    same("rests\n", $probe->next()->body);
    $probe->send(Probe::job('other', '', 3), Frame::of(Type::GOAWAY));
    same(['false', 'any: other'], array_map(fn (Frame $f) => $f->body, $probe->rest()));
    same(0, $probe->exitCode());
});

test('worker: checkpoints and progress', function (): void {
    $probe = (new Probe())->welcome();
    same([0, 'saved'], [($a = $probe->ask(Probe::job('save', '32768', 2, meta: [35 => 'at 1']), $events))->code, $a->body]);
    same([3, 5, 1, 5], array_map(fn (Frame $f) => $f->code, $events));
    same(['{"percent":33.3,"text":"third"}', "\0 at 3", "[\"at 1\",\"\\u0000 at 3\"]\n"], array_map(fn (Frame $f) => $f->body, array_slice($events, 0, 3)));
    same(32768, strlen($events[3]->body));
    $answer = $probe->ask(Probe::job('save', '32769'), $events);
    same([64, 'InvalidArgumentException'], [$answer->code, Meta::decode($answer->meta)[14]]);
    same("[null,\"\\u0000 at 3\"]\n", $events[2]->body);
});

test('worker: a result that is too large is dropped and logged, and the job is done', function (): void {
    $probe = (new Probe())->welcome();
    same([0, 65536], [($a = $probe->ask(Probe::job('big', '65536'), $events))->code, strlen($a->body)]);
    same([], $events);
    same([0, ''], [($a = $probe->ask(Probe::job('big', '65537', 4), $events))->code, $a->body]);
    same("The result of 65537 bytes exceeds the maximum of 65536 bytes and is dropped.\n", Probe::logged($events, 4, 2));
    same(0, $probe->ask(Probe::job('big', '20000000'), $events)->code, 'longer than a frame');
});

test('worker: calls and jobs of the same name have separate handlers', function (): void {
    $probe = (new Probe())->welcome();
    same('me', $probe->ask(Probe::call('t.echo', 'me'))->body);
    same('the job of that name', $probe->ask(Probe::job('t.echo', 'me'))->body);
    same('the job of that name', $probe->ask(Probe::job('t.echo', 'me', meta: [130 => str_repeat('v', 300)]))->body);
});

test('worker: tasks without a handler are rejected', function (): void {
    $probe = (new Probe())->welcome();
    same([12, 'this worker has no handler for no.such'], [($a = $probe->ask(Probe::call('no.such')))->code, $a->body]);
    same(12, $probe->ask(Probe::job('nosuch'))->code);
    same('any: nosuch', (new Probe(['star']))->welcome()->ask(Probe::job('nosuch'))->body);
});

test('worker: a CRITICAL frame with unknown metadata is rejected', function (): void {
    $probe = (new Probe())->welcome();
    same(3, $probe->ask(Probe::call('t.echo', 'x', meta: [99 => 'v'], flags: 0x80))->code);
    same(0, $probe->ask(Probe::call('t.echo', 'x', meta: [99 => 'v']))->code);
    same(0, $probe->ask(Probe::call('t.echo', 'x', meta: [5 => 'v', 0x80 => 'v'], flags: 0x80))->code);
});

test('worker: the properties of a task', function (): void {
    $probe = (new Probe())->welcome();
    $frame = Probe::call('t.task', '', 7, 5000, [5 => 'tenant', 1 => '00-trace', 25 => "\2", 19 => "\0\3", 0x80 => 'x', 27 => pack('J', 1500)], 0x20);
    $frame->prio = 31 << 3 | 6;
    $frame->attempt = 4;
    same([
        'id' => 7, 'name' => 't.task', 'isJob' => false, 'jobId' => null, 'priority' => 6,
        'attempt' => 4, 'attempts' => 5, 'crashes' => 2, 'tries' => 3,
        'key' => 'tenant', 'traceparent' => '00-trace', 'mine' => 'x', 'none' => null,
        'shadow' => true, 'created' => 1.5, 'current' => true, 'left' => true,
    ], json_decode($probe->ask($frame)->body, true));
    same(null, json_decode($probe->ask(Probe::call('t.task'))->body, true)['left']);
});

test('worker: a job\'s id as text', function (): void {
    $task = Probe::job('t.task');
    $probe = new Probe(['star']);
    same('019a9f3c-5e00-7a1b-8c2d-0123456789ab', (new \Stoker\Task($task, true, 0))->jobId());
});

test('worker: STOKER_FD is unset, STOKER_WORKER is set', function (): void {
    $env = (new Probe())->welcome(['worker' => 'app-9'])->ask(Probe::call('t.env'));
    same(['fd' => false, 'set' => false, 'worker' => 'app-9'], json_decode($env->body, true));
});

test('worker: each answer is written before the next task starts', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.echo', 'one', 1), Probe::call('t.echo', 'two', 2), Probe::call('t.kill', '', 3), Probe::call('t.echo', 'never', 4));
    $ids = array_map(fn (Frame $f) => "$f->type:$f->id", $probe->rest());
    same(['2:1', '2:2', '12:3'], $ids, 'the first unanswered is the one that ran');
    same(137, $probe->exitCode());
});

test('worker: a task that was cancelled before it started is not run', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(
        Frame::of(Type::CANCEL, id: 3),
        Probe::call('t.print', "one\n", 1),
        Probe::call('t.print', "two\n", 2),
        Frame::of(Type::CANCEL, id: 2),
        Frame::of(Type::CANCEL, id: 99),
        Probe::call('t.print', "three\n", 3),
    );
    $frames = [];
    for ($answers = 0; $answers < 3; $answers += end($frames)->type === Type::RES ? 1 : 0) {
        $frames[] = $probe->next();
    }
    same(['12:1:1', '2:1:0', '2:2:1', '12:3:1', '2:3:0'], array_map(fn (Frame $f) => "$f->type:$f->id:$f->code", $frames));
});

test('worker: PING is answered', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Frame::of(Type::PING, id: 77));
    same([Type::PONG, 77], [($pong = $probe->next())->type, $pong->id]);
});

test('worker: after GOAWAY it finishes the received tasks, and run() returns', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.echo', 'a', 1), Frame::of(Type::GOAWAY), Probe::call('t.echo', 'b', 2));
    same(['a', 'b'], array_map(fn (Frame $f) => $f->body, $probe->rest()));
    same([0, "boot\nafter run\nshutdown\n"], [$probe->exitCode(), $probe->stdout()]);
});

test('worker: the end of the connection has the same effect as GOAWAY', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.echo', 'a', 1), substr(Probe::call('t.echo', 'cut short', 2)->encode(), 0, 25));
    $probe->halfClose();
    same(['a'], array_map(fn (Frame $f) => $f->body, $probe->rest()));
    same([0, "boot\nafter run\nshutdown\n"], [$probe->exitCode(), $probe->stdout()]);
});

test('worker: stop() answers the current task, sends GOAWAY, and returns the other tasks', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.stop', '', 1), Probe::call('t.echo', 'never', 2));
    $frames = $probe->rest();
    same([[Type::RES, 'stopping'], [Type::GOAWAY, '']], array_map(fn (Frame $f) => [$f->type, $f->body], $frames));
    same(0, $probe->exitCode());
});

test('worker: returned() returns the task and stops the worker', function (): void {
    foreach ([Probe::job('returned', '', 2), Probe::call('t.returned', '', 2)] as $task) {
        $probe = (new Probe())->welcome();
        $probe->send(Probe::call('t.echo', 'a', 1), $task, Probe::call('t.echo', 'never', 3));
        same([[Type::RES, 1], [Type::GOAWAY, 0]], array_map(fn (Frame $f) => [$f->type, $f->id], $probe->rest()));
        same(0, $probe->exitCode());
    }
});

test('worker: frames longer than max_frame are still read', function (): void {
    $probe = (new Probe())->welcome(['max_frame' => 1000]);
    same(64, $probe->ask(Probe::call('t.echo', str_repeat('x', 2000)))->code);
});

test('worker: a rejection stops the worker with the reason', function (): void {
    $probe = new Probe([], ['display_errors=1']);
    $probe->send(Frame::of(Type::RES, code: 3, body: 'queue "x" belongs to another pool'));
    same(255, $probe->exitCode());
    holds(str_contains($probe->stdout(), 'Stoker rejected this worker: queue "x" belongs to another pool'), $probe->stdout());
});

test('worker: invalid frames stop the worker', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send("\0\0\0\1garbage garbage garbage");
    same(255, $probe->exitCode());
});

// Issue 10
test('worker: a late soft cancel for the previous task consumes no frames of a task that waits in ack()', function (): void {
    $probe = (new Probe(['soft']))->welcome();
    for ($round = 1; $round <= 50; $round++) {
        $probe->send(Probe::job('ack', '', $round));
        same([6, $round], [($ack = $probe->next())->code, $ack->id]);
        // The bytes wake the worker up, but the signal handler may read them first.
        $probe->send(Frame::of(Type::EVENT, code: 6, id: $round));
        posix_kill($probe->pid, SIGUSR1);
        same("acked true\n", $probe->next()->body);
        same([Type::RES, $round], [($answer = $probe->next())->type, $answer->id]);
    }
});
