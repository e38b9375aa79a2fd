<?php

// Tests a worker whose handlers make calls, and a worker that connects by itself.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\Type;

/** A fake server that reports each HELLO and request. */
function telling(): Stage
{
    return new Stage(function (Stage $stage): void {
        while (true) {
            $peer = $stage->accept();
            $hello = $peer->welcome();
            $stage->report($hello['worker'] ?? null);
            while ($request = $peer->next()) {
                $stage->report(shown($request));
                $peer->answer($request, 0, 'answer');
            }
        }
    });
}

test('nested: a call inherits time, priority and trace, and names its parent', function (): void {
    $stage = telling();
    $probe = (new Probe(script: 'nested.php'))->welcome(['worker' => 'app-4']);
    $task = Probe::call('n.call', $stage->socket, 77, 2000, [1 => '00-trace', 2 => 'state', 5 => 'tenant']);
    $task->prio = 9 << 3 | 6;
    same('answer', $probe->ask($task)->body);
    same('app-4', $stage->heard());
    $sent = $stage->heard();
    holds($sent['ttl'] > 500 && $sent['ttl'] <= 2000, "ttl {$sent['ttl']}");
    same([6, [1 => bin2hex('00-trace'), 2 => bin2hex('state'), 10 => '0000004d']], [$sent['prio'], $sent['meta']]);
});

test('nested: a call may have its own timeout and priority, but never more time than its parent', function (): void {
    $stage = telling();
    $probe = (new Probe(script: 'nested.php'))->welcome();
    $probe->ask(Probe::call('n.own', $stage->socket, 1, 60_000));
    $stage->heard();
    $sent = $stage->heard();
    holds($sent['ttl'] > 100 && $sent['ttl'] <= 500 && $sent['prio'] === 1, "ttl {$sent['ttl']}");
    $probe->ask(Probe::call('n.own', $stage->socket, 1, 300));
    $stage->heard();
    holds($stage->heard()['ttl'] <= 300, 'the parent\'s');
    $probe->ask(Probe::call('n.call', $stage->socket, 1));
    $stage->heard();
    same([0, 3], [($sent = $stage->heard())['ttl'], $sent['prio']], 'a call of a task without a limit has none');
});

test('nested: if no time is left, nothing is sent', function (): void {
    $probe = (new Probe(script: 'nested.php'))->welcome();
    $stage = new Stage(function (Stage $stage): void {
        $stage->accept()->next();
    });
    same('other.one: the running task has no time left for this call true', $probe->ask(Probe::call('n.late', $stage->socket, 1, 5))->body);
});

test('nested: pushes and one-way calls have no deadline, and one-way calls no parent', function (): void {
    $stage = telling();
    $probe = (new Probe(script: 'nested.php'))->welcome();
    $probe->ask(Probe::call('n.notify', $stage->socket, 5, 3000, [1 => '00-trace']));
    $stage->heard();
    same([0, [1 => bin2hex('00-trace')]], [($sent = $stage->heard())['ttl'], $sent['meta']]);
    $probe->ask(Probe::job('n', $stage->socket, 6, meta: [1 => '00-trace']));
    $stage->heard();
    // A push names the task too, because the pushed job belongs to the owner of the task.
    same([0, 3, [1 => bin2hex('00-trace'), 10 => '00000006', 24 => bin2hex('q')]], [($sent = $stage->heard())['ttl'], $sent['prio'], $sent['meta']]);
});

test('connecting: a worker without a descriptor joins a pool by the socket', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->accept();
        $hello = $peer->welcome(['worker' => 'app-8']);
        $stage->report([$hello['pool'], $hello['token'], $hello['role']]);
        $peer->send(Probe::call('n.notify', '/nonexistent'));
        $stage->report($peer->next()->code);
        $peer->send(Frame::of(Type::GOAWAY));
        $stage->report($peer->next());
    });
    [$process] = Processes::php([__DIR__ . '/fixtures/nested.php'], [2 => STDERR], ['STOKER_SOCKET' => $stage->socket, 'STOKER_POOL' => 'remote']);
    same([['remote', 'secret', 'worker'], 64, null], [$stage->heard(), $stage->heard(), $stage->heard()]);
});

test('connecting: without descriptor and socket the message says what to do', function (): void {
    [$process, $pipes] = Processes::php([__DIR__ . '/fixtures/nested.php'], [1 => ['pipe', 'w']], ['STOKER_SOCKET' => '']);
    holds(str_contains(stream_get_contents($pipes[1]), 'let `stoker serve` start this script'), 'the message');
});
