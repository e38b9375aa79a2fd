<?php

// Tests that a worker survives what handlers do to it, or dies with last words.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

/** @return array<string, mixed> the last words among the frames, with the id of their task */
function lastWords(array $frames): array
{
    foreach ($frames as $frame) {
        if ($frame->type === Type::EVENT && $frame->code === 4) {
            return json_decode($frame->body, true, 16, JSON_THROW_ON_ERROR) + ['id' => $frame->id];
        }
    }
    throw new Failure('no last words among ' . count($frames) . ' frames');
}

function state(Probe $probe): array
{
    return json_decode($probe->ask(Probe::call('t.state'))->body, true);
}

test('survival: a warning is passed to the application\'s handler, and its output to the task\'s log', function (): void {
    $answer = (new Probe())->welcome()->ask(Probe::call('t.warn', '', 5), $events);
    same('warned', $answer->body);
    same("base: Undefined variable \$undefined\n", Probe::logged($events, 5));
});

test('survival: a warning that PHP prints does not corrupt the connection', function (): void {
    $answer = (new Probe(['plain-errors']))->welcome()->ask(Probe::call('t.warn', '', 5), $events);
    same('warned', $answer->body);
    holds(str_contains(Probe::logged($events, 5), 'Warning: Undefined variable'), 'the warning');
});

test('survival: error handlers, error level and time limit are restored', function (): void {
    $probe = (new Probe())->welcome();
    $before = state($probe);
    same('base_handler', $before['handler']);
    same('set', $probe->ask(Probe::call('t.handlers'))->body);
    same($before, state($probe));
    same('popped', $probe->ask(Probe::call('t.pophandlers'))->body);
    same($before, state($probe));
    $plain = (new Probe(['plain-errors']))->welcome();
    $before = state($plain);
    same(null, $before['handler']);
    $plain->ask(Probe::call('t.handlers'));
    $plain->ask(Probe::call('t.pophandlers'));
    same($before, state($plain));
});

test('survival: output is logged for its task, byte for byte', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.print', 'one', 1), Probe::call('t.print', "\0\xff\n\r", 2), Probe::call('t.print', '', 3), Probe::call('t.print', "a\nb", 4));
    $seen = [];
    while (count(array_filter($seen, fn (Frame $f) => $f->type === Type::RES)) < 4) {
        $seen[] = $probe->next();
    }
    same(
        ['12:1:one', '2:1:printed', "12:2:\0\xff\n\r", '2:2:printed', '2:3:printed', "12:4:a\nb", '2:4:printed'],
        array_map(fn (Frame $f) => "$f->type:$f->id:$f->body", $seen),
    );
});

test('survival: long output arrives complete, in events of at most 64 KiB', function (): void {
    $probe = (new Probe())->welcome();
    $probe->ask(Probe::call('t.flood', '', 9), $events);
    $want = '';
    for ($i = 0; $i < 200; $i++) {
        $want .= str_repeat(chr($i), 1000);
    }
    holds(Probe::logged($events, 9) === $want . str_repeat('z', 200_000) . "\n", 'every byte, in order');
    holds(max(array_map(fn (Frame $f) => strlen($f->body), $events)) <= 65536, 'size of the pieces');
});

test('survival: a complete line is sent before the handler ends', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.spin', '', 4));
    same([Type::EVENT, 4, "spinning\n"], [($f = $probe->next())->type, $f->id, $f->body]);
});

test('survival: output buffers that are left open are closed, and their content is kept', function (): void {
    $probe = (new Probe())->welcome();
    $before = state($probe);
    same('left open', $probe->ask(Probe::call('t.buffers', '', 6), $events)->body);
    same('one two ', Probe::logged($events, 6));
    same($before, state($probe));
});

test('survival: a handler that closes every buffer', function (): void {
    $probe = (new Probe())->welcome();
    $before = state($probe);
    same('closed all', $probe->ask(Probe::call('t.closeall', '', 6), $events)->body);
    same('before ', Probe::logged($events, 6));
    same($before, state($probe));
    $probe->ask(Probe::call('t.print', 'again', 8), $events);
    same('again', Probe::logged($events, 8));
    $probe->halfClose();
    holds(str_contains($probe->stdout(), 'inside '), 'what it printed without our buffer went to stdout');
});

test('survival: a buffer whose callback throws', function (): void {
    $probe = (new Probe())->welcome();
    $before = state($probe);
    same('bad buffer', $probe->ask(Probe::call('t.badbuffer'))->body);
    same($before, state($probe));
});

test('survival: progress, log and metric', function (): void {
    (new Probe())->welcome()->ask(Probe::call('t.tell', '', 3), $events);
    same([
        [1, 1, 3, 'no newline'],
        [1, 2, 3, "a log line\n"],
        [3, 0, 3, '{"percent":100,"text":"half \ufffd way"}'],
        [2, 0, 3, '{"name":"mails","value":2.5,"labels":{"to":"all"}}'],
    ], array_map(fn (Frame $f) => [$f->code, $f->prio, $f->id, $f->body], $events));
});

test('survival: exit() is a failure of the task and not a crash', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.echo', 'a', 1), Probe::call('t.exit', '', 2), Probe::call('t.echo', 'never', 3));
    $frames = $probe->rest();
    same('half a line and more', Probe::logged($frames, 2));
    $frames = array_values(array_filter($frames, fn (Frame $f) => $f->type !== Type::EVENT));
    same([[Type::RES, 1, 0], [Type::RES, 2, Status::APPLICATION], [Type::GOAWAY, 0, 0]], frames(...$frames));
    $meta = Meta::decode($frames[1]->meta);
    same('Stoker\\ExitCalled', $meta[Key::ERROR_CLASS]);
    same(1, preg_match('~/worker\.php:[1-9]\d*$~D', $meta[Key::ERROR_PLACE]));
    same('exit() or die() was called while t.exit ran, which ends the worker: return or throw instead. Place: the start of its handler', $frames[1]->body);
    same([3, "boot\nshutdown\n"], [$probe->exitCode(), $probe->stdout()], 'shutdown functions print to stdout');
});

test('survival: a fatal error sends last words', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.fatal', '', 2));
    $words = lastWords($probe->rest());
    same(['E_COMPILE_ERROR', 2], [$words['class'], $words['id']]);
    holds(str_contains($words['message'], 'declare class Twice'), $words['message']); // PHP 8.4 says "redeclare".
    same(255, $probe->exitCode());
});

test('survival: last words are sent even if memory is exhausted', function (): void {
    foreach (['100', '5000', '70000', '3000000', '900000000'] as $size) {
        $probe = (new Probe([], ['memory_limit=32M']))->welcome();
        $probe->send(Probe::call('t.memory', $size, 2));
        $frames = $probe->rest();
        $words = lastWords($frames);
        same(['E_ERROR', 2], [$words['class'], $words['id']], "in pieces of $size");
        holds(str_contains($words['message'], 'Allowed memory size of 33554432 bytes exhausted'), $words['message']);
    }
});

test('survival: the output of a killed worker has been sent', function (): void {
    $probe = (new Probe())->welcome();
    $probe->send(Probe::call('t.kill', '', 2));
    $frames = $probe->rest();
    same([["last line\n", Type::EVENT]], array_map(fn (Frame $f) => [$f->body, $f->type], $frames));
});

test('survival: a forked child never answers', function (): void {
    $probe = (new Probe())->welcome();
    foreach (['return', 'throw'] as $how) {
        same('child left with 0', $probe->ask(Probe::call('t.fork', $how, 4), $events)->body);
        same([], $events);
    }
    same('child left with 9', $probe->ask(Probe::call('t.forkfatal', '', 4), $events)->body);
    same([], $events, 'no last words of a child');
    same('alive', $probe->ask(Probe::call('t.echo', 'alive'))->body);
    $probe->halfClose();
    same("boot\nchild prints\nshutdown\nchild prints\nshutdown\nshutdown\nafter run\nshutdown\n", $probe->stdout());
});

test('survival: soft cancel ends the handler, not the worker', function (): void {
    $probe = (new Probe(['soft']))->welcome();
    same(true, $probe->hello['soft_cancel']);
    posix_kill($probe->pid, SIGUSR1); // The worker must ignore it between tasks.
    same('idle', $probe->ask(Probe::call('t.echo', 'idle'))->body);
    for ($i = 0; $i < 20; $i++) {
        $probe->send(Probe::call($i % 2 ? 't.spinprint' : 't.spin', '', 4));
        $probe->next();
        $probe->send(Frame::of(Type::CANCEL, id: 4));
        posix_kill($probe->pid, SIGUSR1);
        do {
            $answer = $probe->next(); // Frames must be complete, wherever the signal interrupted.
        } while ($answer->type === Type::EVENT);
        same([64, 4, 'the task exceeded its timeout'], [$answer->code, $answer->id, strtok($answer->body, "\n")]);
        same('Stoker\TaskTimeout', \Stoker\Wire\Meta::decode($answer->meta)[14]);
    }
    same('alive', $probe->ask(Probe::call('t.echo', 'alive'))->body);
});

// Issue 9, A22
test('survival: a late soft cancel does not interrupt the next task', function (): void {
    $probe = (new Probe(['soft']))->welcome();
    for ($i = 0; $i < 5; $i++) {
        // The first task has been answered when its CANCEL is sent, and its signal arrives during the second task.
        $probe->send(Probe::call('t.echo', 'first', 1), Probe::call('t.spinfor', '0.2', 2));
        same(['first', 1], [($answer = $probe->next())->body, $answer->id]);
        same(Type::EVENT, $probe->next()->type, 'the second has begun');
        $probe->send(Frame::of(Type::CANCEL, id: 1));
        posix_kill($probe->pid, SIGUSR1);
        same(['spun', 2], [($answer = $probe->next())->body, $answer->id]);
    }
    // A task with a reused id is a different task.
    $probe->send(Frame::of(Type::CANCEL, id: 1));
    $probe->send(Probe::call('t.spinfor', '0.2', 1));
    same(Type::EVENT, $probe->next()->type);
    posix_kill($probe->pid, SIGUSR1);
    same('spun', $probe->next()->body);
});

test('survival: memory does not grow over 120,000 tasks of 1 B to 100 KB', function (): void {
    $probe = (new Probe())->welcome();
    $rss = fn (): int => (int) explode(' ', file_get_contents("/proc/{$probe->pid}/statm"))[1] * 4096;
    $round = function (int $batches) use ($probe): void {
        $sizes = [1, 10, 100, 1000, 10_000, 100_000, 64, 64, 64, 64];
        for ($i = 0; $i < $batches; $i++) {
            $frames = [];
            for ($id = 1; $id <= 40; $id++) {
                $body = str_repeat('b', $sizes[$id % 10] === 100_000 && $i % 20 ? 50 : $sizes[$id % 10]);
                $frames[] = match ($id % 4) {
                    0 => Probe::call('t.echo', $body, $id, 1000),
                    1 => Probe::job('nothing', $body, $id),
                    2 => Probe::job('throw', $body, $id),
                    3 => Probe::call('t.json', json_encode([$body]), $id, 1000, [5 => 'tenant']),
                };
            }
            $probe->send(...$frames);
            for ($n = 0; $n < 40; $n++) {
                same(Type::RES, $probe->next()->type);
            }
        }
    };
    $round(500);
    $before = $rss();
    $round(2500);
    $grown = $rss() - $before;
    holds($grown <= 256 * 1024, "grew by $grown bytes in 100,000 tasks");
});
