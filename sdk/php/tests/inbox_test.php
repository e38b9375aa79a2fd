<?php

// An inbox, whose loop is its user's, against a broker that the test plays.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

test('inbox: HELLO says which queues', function (): void {
    $hello = (new Probe(['a', 'b'], script: 'inbox.php'))->hello;
    same([['a', 'b'], [], 1, true], [$hello['jobs'], $hello['calls'], $hello['slots'], $hello['soft_cancel']]);
});

test('inbox: jobs are taken one by one and end as their user says', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    $end = function (string $body) use ($probe): array {
        $answer = $probe->ask(Probe::job('q', $body, 3));

        return [$answer->code, $answer->body, Meta::int(Meta::decode($answer->meta)[11] ?? null)];
    };
    same([0, '{"n":1}', null], $end('result'));
    same([48, 'later', 2000], $end('retry'));
    same([49, 'never', null], $end('fail'));
    same([64, 'DomainException'], [($a = $probe->ask(Probe::job('q', 'throw')))->code, Meta::decode($a->meta)[14]]);
    same([0, 'LogicException', null], $end('twice'));
});

test('inbox: a signal ends the waiting at once', function (): void {
    $probe = (new Probe(['--wait=60'], script: 'inbox.php'))->welcome();
    same('here', $probe->ask(Probe::job('q', 'here'))->body);
    posix_kill($probe->pid, SIGTERM);
    same([Type::GOAWAY], array_map(fn (Frame $f) => $f->type, $probe->rest()));
    same([0, "terminated\n"], [$probe->exitCode(), $probe->stdout()]);
});

test('inbox: a soft cancel strikes the code that may be interrupted', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    $probe->send(Probe::job('q', 'spin', 3));
    same("spins\n", $probe->next()->body);
    posix_kill($probe->pid, SIGUSR1);
    same('Stoker\TaskTimeout', Meta::decode($probe->next()->meta)[14]);
    posix_kill($probe->pid, SIGUSR1);
    same('here', $probe->ask(Probe::job('q', 'here'))->body, 'between tasks it does nothing');
});

test('inbox: GOAWAY: it takes what is here, and then no more', function (): void {
    $probe = (new Probe(['--wait=60'], script: 'inbox.php'))->welcome();
    $probe->send(Probe::job('q', 'here', 1), Frame::of(Type::GOAWAY), Probe::job('q', 'here', 2));
    same([[2, 1], [2, 2]], array_map(fn (Frame $f) => [$f->type, $f->id], $probe->rest()));
    same([0, "closed\n"], [$probe->exitCode(), $probe->stdout()]);
});

test('inbox: what was lent and not taken goes back, and a death in a task has last words', function (): void {
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    $probe->send(Probe::job('q', 'close', 1), Probe::job('q', 'here', 2));
    same([[Type::RES, 1], [Type::GOAWAY, 0]], array_map(fn (Frame $f) => [$f->type, $f->id], $probe->rest()));
    $probe = (new Probe(script: 'inbox.php'))->welcome();
    $probe->send(Probe::job('q', 'exit', 1), Probe::job('q', 'here', 2));
    [$words] = $rest = $probe->rest();
    same([1, Type::EVENT, 4, 1], [count($rest), $words->type, $words->code, $words->id]);
    same('exit() or die() was called while q ran', json_decode($words->body, true)['message']);
});
