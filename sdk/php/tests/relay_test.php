<?php

// Tests clients of a server on another machine: tokens, rejections, keepalive and persistent connections.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Client;
use Stoker\ConnectionLost;
use Stoker\ConnectionRefused;
use Stoker\DeadlineExceeded;
use Stoker\InvalidRequest;
use Stoker\Overloaded;
use Stoker\PermissionDenied;
use Stoker\StokerException;
use Stoker\Unavailable;
use Stoker\Wire\Frame;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

/** A fake server that answers each request with the token of HELLO. */
function tokens(?string $socket): Stage
{
    return new Stage(function (Stage $stage): void {
        while (true) {
            $peer = $stage->accept();
            $hello = $peer->welcome();
            while ($request = $peer->next()) {
                $peer->answer($request, 0, $hello['token'] ?? 'none');
            }
        }
    }, $socket);
}

/** A fake server that rejects the first $n connections and answers requests on others with "in". */
function rejecting(int $n, int $status, string $text, array $meta = [], ?string $socket = 'tcp'): Stage
{
    return new Stage(function (Stage $stage) use ($n, $status, $text, $meta): void {
        for ($i = 1; ; $i++) {
            if ($i > $n) {
                $peer = $stage->welcome();
                while ($request = $peer->next()) {
                    $peer->answer($request, 0, 'in');
                }
                continue;
            }
            $peer = $stage->accept();
            same(Type::HELLO, $peer->next()->type);
            $peer->send(Frame::of(Type::RES, code: $status, meta: Meta::encode($meta), body: $text));
            $peer->close();
            $stage->report($i);
        }
    }, $socket);
}

test('token: it is sent over TCP and TLS, and never over a unix socket', function (): void {
    foreach (['tcp', 'tls'] as $how) {
        $stage = tokens($how);
        $ask = static fn (?string $token = null) => Client::connect($stage->socket, connectTimeout: 10, token: $token)->call('a.b');
        same('mine', $ask('mine'), $how);
        same('of env', with(['STOKER_TOKEN' => 'of env'], fn () => $ask()), $how);
        same('mine', with(['STOKER_TOKEN' => 'of env'], fn () => $ask('mine')), $how);
        same('none', with(['STOKER_TOKEN' => null], fn () => $ask()), $how);
    }
    $unix = tokens(null);
    same('none', with(['STOKER_TOKEN' => 'of env'], fn () => Client::connect($unix->socket, token: 'mine')->call('a.b')));
    same('none', Client::connect(closedPort() . ",{$unix->socket}", token: 'mine')->call('a.b'), 'decided for each server of a list');
});

test('rejected: the text of the server is in the exception, and a wrong token is not tried again', function (): void {
    $cases = [
        [Status::UNAUTHENTICATED, 'unknown token: create one with `stoker token create`', PermissionDenied::class],
        [Status::PERMISSION_DENIED, 'the token "web" may not push', PermissionDenied::class],
        [Status::FAILED_PRECONDITION, 'this port needs TLS: use tls://', InvalidRequest::class],
    ];
    foreach ($cases as [$status, $text, $class]) {
        $stage = rejecting(1, $status, $text);
        $client = Client::connect($stage->socket, reconnectFor: 60, token: 'x');
        $calls = [$client->callAsync('a.b', idempotent: true), $client->callAsync('a.c')];
        $e = throws($class, fn () => $calls[0]->await());
        same(["a.b: $text", $status, true], [$e->getMessage(), $e->status, $e->notProcessed]);
        same("a.c: $text", throws($class, fn () => $calls[1]->await())->getMessage());
        same('in', $client->call('a.b'), 'the client itself stays usable');
    }
});

test('rejected: a server without room is tried again within reconnectFor, not before the time that it names', function (): void {
    foreach ([Status::RESOURCE_EXHAUSTED => Overloaded::class, Status::UNAVAILABLE => Unavailable::class] as $status => $class) {
        $stage = rejecting(2, $status, 'too many connections', [11 => Meta::u32(150)]);
        $start = hrtime(true);
        // Neither is repeatable, but nothing was processed.
        same(['in', 'in'], Client::connect($stage->socket, reconnectFor: 60)->callAll([['a.b'], ['a.c']]));
        holds(hrtime(true) - $start >= 300e6, 'two pauses of 150 ms');
        same([1, 2], [$stage->heard(), $stage->heard()]);
        $e = throws($class, fn () => Client::connect(rejecting(1, $status, 'full', [11 => Meta::u32(150)])->socket)->call('a.b'));
        same(['a.b: full', 0.15, true], [$e->getMessage(), $e->retryAfter, $e->notProcessed]);
        $e = throws($class, fn () => Client::connect(rejecting(1, $status, 'full', [11 => Meta::u32(60_000)])->socket, reconnectFor: 100)->call('a.b', timeout: 20));
        same('a.b: full', $e->getMessage(), 'a wait beyond the deadline is useless');
    }
});

test('rejected: the next server of the list is tried', function (): void {
    $full = rejecting(1, Status::UNAVAILABLE, 'draining');
    same('x', Client::connect("{$full->socket}," . saying('x', 'tcp')->socket, reconnectFor: 60)->call('a.b'));
});

test('rejected: the text arrives even if the server did not read the requests', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->send(Frame::of(Type::RES, code: Status::UNAUTHENTICATED, body: 'unknown token'));
        stream_socket_shutdown($peer->socket, STREAM_SHUT_WR);
        $stage->accept(); // Keeps the connection open, without reading from it.
    }, 'tcp');
    $client = Client::connect($stage->socket);
    same('a.b: unknown token', throws(PermissionDenied::class, fn () => $client->call('a.b', str_repeat('x', 60_000), timeout: 5))->getMessage());
});

test('keepalive: a silent server gets a PING, and a slow one is waited for', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $request = $peer->next();
        for ($n = 0; $n < 3; $n++) {
            $ping = $peer->next();
            $peer->send(Frame::of(Type::PONG, id: $ping->id));
        }
        $peer->answer($request, 0, "{$ping->type} $n");
    }, 'tcp');
    same('7 3', Client::connect($stage->socket, keepalive: 0.05)->call('a.b'));
});

test('keepalive: without any sign of the server the connection counts as lost', function (): void {
    foreach (['tcp', 'tls'] as $how) {
        $stage = new Stage(function (Stage $stage): void {
            for ($silent = [];;) {
                $silent[] = $stage->welcome();
                $peer = $stage->welcome();
                while ($request = $peer->next()) {
                    $peer->answer($request, 0, $request->name);
                }
            }
        }, $how);
        $start = hrtime(true);
        same('a.b', Client::connect($stage->socket, connectTimeout: 10, keepalive: 0.1)->call('a.b', idempotent: true), $how);
        $took = (hrtime(true) - $start) / 1e9;
        holds($took >= 0.18 && $took < 3, "it took $took");
        $client = Client::connect($stage->socket, connectTimeout: 10, keepalive: 0.05);
        $e = throws(ConnectionLost::class, fn () => $client->push('q'));
        holds(str_contains($e->getMessage(), 'it did not answer a PING within 0.05 seconds'), $e->getMessage());
        same('stoker.push', $client->push('q'));
    }
});

test('keepalive: the time counts only while the client waits', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        while ($request = $peer->next()) {
            $peer->answer($request, 0, (string) $request->type);
        }
    }, 'tcp');
    $client = Client::connect($stage->socket, keepalive: 0.02);
    $client->call('a.b');
    // Meanwhile another client loses its connection, so the first one has been idle for longer than that takes.
    $silent = new Stage(function (Stage $stage): void {
        for ($peers = [];; $peers[] = $stage->welcome());
    }, 'tcp');
    throws(ConnectionLost::class, fn () => Client::connect($silent->socket, keepalive: 0.02)->push('q'));
    same('1', $client->call('a.b'), 'the next frame is the request');
});

test('keepalive: with 0, over a unix socket and before its time nothing is sent', function (): void {
    $quiet = static fn (?string $socket) => new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $request = $peer->next();
        stream_set_timeout($peer->socket, 0, 100_000);
        $peer->answer($request, 0, json_encode($peer->next()));
    }, $socket);
    same('null', Client::connect($quiet('tcp')->socket, keepalive: 0)->call('a.b'));
    same('null', Client::connect($quiet('tcp')->socket)->call('a.b'));
    same('null', Client::connect($quiet(null)->socket, keepalive: 0.01)->call('a.b'));
    throws(InvalidRequest::class, fn () => Client::connect($quiet('tcp')->socket, keepalive: -1));
});

test('keepalive: a server that does not read is noticed during a long write, too', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $silent = $stage->welcome();
        $stage->accept();
    }, 'tcp');
    $client = Client::connect($stage->socket, keepalive: 0.1);
    throws(ConnectionLost::class, fn () => $client->callAll(array_fill(0, 10, ['a.b', str_repeat('x', 4_000_000)])));
});

test('deadline: a server that has gone away leads to an error in time', function (): void {
    $stage = saying('x', 'tcp');
    $client = Client::connect("{$stage->socket}," . closedPort(), reconnectFor: 60, timeout: 0.3);
    same('x', $client->call('a.b'));
    Processes::end($stage->pid);
    foreach ([null, 'k'] as $key) {
        $start = hrtime(true);
        $e = throws(StokerException::class, fn () => $client->push('q', idempotencyKey: $key));
        $took = (hrtime(true) - $start) / 1e9;
        holds($took < 2, "it took $took");
        $isLost = $e instanceof ConnectionLost && $key === null; // The server may have read it before it ended.
        holds($isLost || $e instanceof ConnectionRefused || $e instanceof DeadlineExceeded || str_contains($e->getMessage(), 'refused'), "$e");
    }
});

/** A fake server that answers "a.b" with the number of the connection and the body, and "a.slow" only before the next request. */
function numbering(?string $socket): Stage
{
    return new Stage(function (Stage $stage): void {
        for ($n = 1; ; $n++) {
            $peer = $stage->welcome();
            for ($late = []; $request = $peer->next();) {
                if ($request->name === 'a.slow') {
                    $late[] = $request;
                    continue;
                }
                $peer->answer($request, 0, "$n {$request->body}\n");
                if ($request->body === '') { // The request after a.slow in the same script.
                    continue;
                }
                while (($one = array_pop($late)) !== null) {
                    $peer->answer($one, 0, 'WRONG');
                }
            }
        }
    }, $socket);
}

test('persistent: over TCP and TLS the next script reuses an idle connection', function (): void {
    foreach (['tcp', 'tls'] as $how) {
        $stage = numbering($how);
        for ($i = 0; $i < 3; $i++) {
            $client = Client::connect($stage->socket, persistent: true, connectTimeout: 10);
            same("1 x\n", $client->call('a.b', 'x'), $how);
            unset($client);
        }
        $client = Client::connect($stage->socket, persistent: true, connectTimeout: 10);
        $client->callAsync('a.slow');
        same("1 \n", $client->call('a.b'));
        unset($client); // One request has no answer.
        gc_collect_cycles(); // It refers to the client's connection.
        same("2 x\n", Client::connect($stage->socket, persistent: true, connectTimeout: 10)->call('a.b', 'x'), $how);
    }
});

test('persistent: a connection is not shared by two clients of a script, and not with another token', function (): void {
    foreach (['tcp', 'tls', null] as $how) {
        $stage = new Stage(function (Stage $stage): void {
            for ($n = 1; ; $n++) {
                $peers[] = $peer = $stage->accept();
                $token = $peer->welcome()['token'] ?? 'none';
                $peer->answer($peer->next(), 0, "$n $token");
            }
        }, $how);
        $connect = static fn (string $token) => Client::connect($stage->socket, persistent: true, connectTimeout: 10, token: $token);
        $token = $how === null ? 'none' : 'one';
        $one = $connect('one');
        same("1 $token", $one->call('a.b'));
        $two = $connect('one');
        same("2 $token", $two->call('a.b'));
        if ($how !== null) {
            same('3 other', $connect('other')->call('a.b'));
        }
    }
});

test('persistent: a connection on which a frame was read in part is not kept', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $request = $peer->next();
        $answer = Frame::of(Type::RES, id: $request->id, body: 'first')->encode();
        fwrite($peer->socket, $answer . substr(Frame::of(Type::PING, id: 5)->encode(), 0, 10));
        $other = $stage->welcome();
        $other->answer($other->next(), 0, 'second');
    }, 'tcp');
    same('first', Client::connect($stage->socket, persistent: true)->call('a.b'));
    same('second', Client::connect($stage->socket, persistent: true)->call('a.b', timeout: 5));
});

test('persistent: scripts of one process, however they end, never get the answer to another one', function (): void {
    $router = __DIR__ . '/fixtures/persistent.php';
    [, $pipes] = Processes::php(['-S', '127.0.0.1:0', $router], [1 => ['file', '/dev/null', 'w'], 2 => ['pipe', 'w']]);
    do {
        $line = (string) fgets($pipes[2]);
    } while ($line !== '' && !preg_match('~\(http://(\S+)\) started~', $line, $web));
    foreach (['tcp', 'tls'] as $how) {
        $stage = numbering($how);
        $get = static function (string $end) use ($stage, $web): string {
            $url = "http://$web[1]/?" . http_build_query(['at' => $stage->socket, 'end' => $end]);

            return strtok((string) file_get_contents($url, context: stream_context_create(['http' => ['ignore_errors' => true, 'timeout' => 20]])), "\n");
        };
        $want = $got = [];
        foreach (['fine' => 1, 'again' => 1, 'exit' => 1, 'b' => 2, 'exception' => 2, 'c' => 3, 'timeout' => 3, 'd' => 4, 'unsent' => 4, 'e' => 5, 'f' => 5] as $end => $connection) {
            $want[] = "$connection $end";
            $got[] = $get($end);
        }
        same($want, $got, $how);
    }
});
