<?php

// Tests an inbox, with the test as its server.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Inbox;
use Stoker\Retry;
use Stoker\Task;
use Stoker\Wire\Frame;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

/** @return list<array{int, int, int}> for each frame: type, id, and ttl of a READY or code of any other */
function frames(Frame ...$frames): array
{
    return array_map(static fn (Frame $f): array => [$f->type, $f->id, $f->type === Type::READY ? $f->ttl : $f->code], $frames);
}

test('inbox: HELLO lists the queues and sets pull', function (): void {
    $hello = (new Probe(['a', 'b'], script: 'inbox.php'))->hello;
    same([['a', 'b'], [], 1, true], [$hello['jobs'], $hello['calls'], $hello['slots'], $hello['soft_cancel']]);
    same(true, $hello['pull']);
});

test('inbox: jobs are taken one at a time and get the outcome that answer() sends', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    $end = function (string $body) use ($probe): array {
        $answer = $probe->pulled(Probe::job('q', $body, 3));

        return [$answer->code, $answer->body, Meta::int(Meta::decode($answer->meta)[11] ?? null)];
    };
    same([0, '{"n":1}', null], $end('result'));
    same([48, 'later', 2000], $end('retry'));
    same([49, 'never', null], $end('fail'));
    same([64, 'DomainException'], [($a = $probe->pulled(Probe::job('q', 'throw')))->code, Meta::decode($a->meta)[14]]);
    same([0, 'LogicException', null], $end('twice'));
});

// Issue 9, A28
test('inbox: it requests one job at a time, and withdraws the request when it stops waiting', function (): void {
    $probe = (new Probe(['--wait=0.05'], script: 'inbox.php'))->welcome();
    for ($round = 0; $round < 3; $round++) {
        same([[Type::READY, 0, 1], [Type::READY, 0, 0]], frames($probe->next(), $probe->next()));
        $probe->send(Frame::of(Type::READY));
    }
    // This job crossed the withdrawal; the worker runs it nevertheless.
    same([[Type::READY, 0, 1], [Type::READY, 0, 0]], frames($probe->next(), $probe->next()));
    $probe->send(Probe::job('q', 'here', 7), Frame::of(Type::READY));
    same([[Type::RES, 7, 0], [Type::READY, 0, 1]], frames($probe->next(), $probe->next()));
});

// Issue 9, A28
test('inbox: after an exception of a signal handler no job stays assigned', function (): void {
    $probe = (new Probe(['--wait=60', '--throw'], script: 'inbox.php'))->welcome();
    same([[Type::READY, 0, 1]], frames($probe->next()));
    $probe->signal(SIGUSR2);
    same([[Type::READY, 0, 0]], frames($probe->next()));
    $probe->send(Probe::job('q', 'here', 4), Frame::of(Type::READY));
    same([[Type::READY, 0, 0], [Type::RES, 4, Status::RETURNED]], frames($probe->next(), $probe->next()));
    same([[Type::READY, 0, 1]], frames($probe->next()));
    $probe->send(Probe::job('q', 'close', 5));
    same([[Type::RES, 5, 0], [Type::GOAWAY, 0, 0]], frames(...$probe->rest()));
    same("of a signal\nclosed\n", $probe->stdout());
});

// Issue 9, A28
test('inbox: a task that has not started can be returned', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    same(Status::RETURNED, $probe->pulled(Probe::job('q', 'return'), $before)->code);
    same([[Type::READY, 0, 0]], frames(...$before), 'else it would be a fault');
    $probe->send(Frame::of(Type::READY));
    same('here', $probe->pulled(Probe::job('q', 'here'))->body, 'and it goes on');
});

test('inbox: a signal ends the wait at once', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    same('here', $probe->pulled(Probe::job('q', 'here'))->body);
    same(Type::READY, $probe->next()->type);
    $probe->signal(SIGTERM);
    same([[Type::READY, 0, 0]], frames($probe->next()));
    $probe->send(Frame::of(Type::READY));
    same([[Type::GOAWAY, 0, 0]], frames(...$probe->rest()));
    same([0, "terminated\n"], [$probe->exitCode(), $probe->stdout()]);
});

test('inbox: a soft cancel interrupts code in interruptible(), and has no effect between tasks', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    $probe->grant(Probe::job('q', 'spin', 3));
    same("spins\n", $probe->next()->body);
    $probe->send(Frame::of(Type::CANCEL, id: 3));
    posix_kill($probe->pid, SIGUSR1);
    same('Stoker\TaskTimeout', Meta::decode($probe->next()->meta)[14]);
    same([[Type::READY, 0, 1]], frames($probe->next()));
    $probe->signal(SIGUSR1); // The signal ends the wait; then the worker requests a task again.
    same([[Type::READY, 0, 0]], frames($probe->next()));
    $probe->send(Frame::of(Type::READY));
    same('here', $probe->pulled(Probe::job('q', 'here'))->body, 'between tasks it does nothing');
});

test('inbox: after GOAWAY it takes the received tasks, and then no more', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    same([[Type::READY, 0, 1]], frames($probe->next()));
    $probe->send(Probe::job('q', 'here', 1), Frame::of(Type::GOAWAY));
    same([[Type::RES, 1, 0]], frames(...$probe->rest()));
    same([0, "closed\n"], [$probe->exitCode(), $probe->stdout()]);
});

test('inbox: a process that dies in a task sends last words', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    $probe->grant(Probe::job('q', 'exit', 1));
    [$words] = $rest = $probe->rest();
    same([1, Type::EVENT, 4, 1], [count($rest), $words->type, $words->code, $words->id]);
    same('exit() or die() was called while q ran', json_decode($words->body, true)['message']);
});

// Issue 10
test('inbox: last words are also sent if exit() is called in the function that holds the inbox', function (): void {
    $puppet = new Puppet('pulls', false);
    $puppet->command('take');
    same('READY 1 of 0', $puppet->frame());
    $puppet->send(Puppet::task(1, 'served', true));
    same('runs 1', $puppet->said());
    $puppet->command('calls exit');
    same('LAST_WORDS of 1', $puppet->frame());
});

/** Runs a fake server, and the code of a worker that connects to it. Returns what the server reported. */
function connected(\Closure $server, \Closure $worker): mixed
{
    $stage = new Stage($server);
    putenv("STOKER_SOCKET={$stage->socket}");
    try {
        $worker($stage);
    } finally {
        putenv('STOKER_SOCKET');
        putenv('STOKER_WORKER');
    }

    return $stage->heard();
}

// Issue 9, A28
test('inbox: a process may have several inboxes, and tasks may end in any order', function (): void {
    $heard = connected(static function (Stage $stage): void {
        foreach (['a' => 1, 'b' => 2] as $queue => $id) {
            $peers[$queue] = $stage->welcome();
            same(Type::READY, $peers[$queue]->next()->type);
            $peers[$queue]->send(Probe::job($queue, '', $id));
        }
        $stage->report([$peers['a']->next()->body, $peers['b']->next()->body]);
    }, static function (): void {
        [$a, $b] = [Inbox::open(['a']), null];
        same('a', $a->take(10)->name);
        $b = Inbox::open(['b']);
        same('b', $b->take(10)->name);
        same('b', Task::current()->name);
        $a->answer('of a');
        same(['b', null], [Task::current()->name, $a->task()]);
        $b->answer('of b');
        same(null, Task::current());
    });
    same(['of a', 'of b'], $heard);
});

// Issue 9, A28
test('inbox: an inbox that is closed or destroyed closes its connection, and another can be opened', function (): void {
    $heard = connected(static function (Stage $stage): void {
        foreach (['closed', 'dropped', 'told to go'] as $how) {
            $peer = $stage->welcome();
            $frames[$how] = [$peer->next()->type, $peer->next()->ttl];
            $peer->send(Frame::of(Type::READY));
            $how !== 'told to go' || $peer->send(Frame::of(Type::GOAWAY));
            $frames[$how][] = $peer->next()?->type;
            $peer->close();
        }
        $stage->report($frames);
    }, static function (): void {
        $inbox = Inbox::open();
        same(null, $inbox->take(0));
        $inbox->close();
        same(true, $inbox->isClosed());
        $inbox = Inbox::open();
        same(null, $inbox->take(0));
        $inbox = null;
        $inbox = Inbox::open();
        same(null, $inbox->take(0));
        $inbox->rest(10);
        same(true, $inbox->isClosed());
        $inbox->close();
    });
    $asked = [Type::READY, 0];
    same(['closed' => [...$asked, Type::GOAWAY], 'dropped' => [...$asked, Type::GOAWAY], 'told to go' => [...$asked, null]], $heard);
});

// Issue 9, A28
test('inbox: signals have their default action while the inbox neither waits nor has a task', function (): void {
    connected(static function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->next();
        $peer->next();
        $peer->send(Frame::of(Type::READY));
        $stage->report(true);
        $peer->next();
    }, static function (): void {
        same(SIG_DFL, pcntl_signal_get_handler(SIGINT));
        $inbox = Inbox::open();
        same(null, $inbox->take(0));
        same([SIG_DFL, SIG_DFL], [pcntl_signal_get_handler(SIGTERM), pcntl_signal_get_handler(SIGINT)]);
    });
});
