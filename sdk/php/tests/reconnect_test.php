<?php

// Tests how the client handles lost connections and servers that do not answer.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Client;
use Stoker\ConnectionLost;
use Stoker\ConnectionRefused;
use Stoker\DeadlineExceeded;
use Stoker\Wire\Frame;
use Stoker\Wire\Type;

/** A fake server that closes its first $n connections after a request, and then answers with the connection's number. */
function dying(int $n): Stage
{
    return new Stage(function (Stage $stage) use ($n): void {
        for ($i = 1; ; $i++) {
            $peer = $stage->welcome();
            while ($request = $peer->next()) {
                if ($i <= $n) {
                    break;
                }
                $peer->answer($request, 0, "connection $i");
            }
            $peer->close();
        }
    });
}

test('reconnect: a call that is not idempotent is not repeated', function (): void {
    $client = Client::connect(dying(1)->socket);
    $e = throws(ConnectionLost::class, fn () => $client->call('a.b'));
    holds(str_contains($e->getMessage(), 'may or may not') && !$e->notProcessed, $e->getMessage());
    same('connection 2', $client->call('a.b'), 'the next call opens a new connection');
});

test('reconnect: an idempotent call is repeated once', function (): void {
    same('connection 2', Client::connect(dying(1)->socket)->call('a.b', idempotent: true));
    throws(ConnectionLost::class, fn () => Client::connect(dying(2)->socket)->call('a.b', idempotent: true));
});

test('reconnect: with reconnectFor it retries more than once', function (): void {
    same('connection 4', Client::connect(dying(3)->socket, reconnectFor: 20)->call('a.b', idempotent: true));
    throws(ConnectionLost::class, fn () => Client::connect(dying(1)->socket, reconnectFor: 20)->call('a.b'));
});

test('reconnect: pushes with an idempotency key are repeated', function (): void {
    $e = throws(ConnectionLost::class, fn () => Client::connect(dying(1)->socket)->push('q'));
    same(false, $e->notProcessed);
    same('connection 2', Client::connect(dying(1)->socket)->push('q', idempotencyKey: 'k'));
    $e = throws(ConnectionLost::class, fn () => Client::connect(dying(1)->socket)->pushMany('q', ['a', 'b']));
    same([], $e->accepted);
});

test('reconnect: of many calls only the idempotent ones are repeated', function (): void {
    $client = Client::connect(dying(1)->socket);
    $calls = [$client->callAsync('a.b'), $client->callAsync('a.b', idempotent: true), $client->callAsync('a.b')];
    throws(ConnectionLost::class, fn () => $calls[0]->await());
    same('connection 2', $calls[1]->await());
    throws(ConnectionLost::class, fn () => $calls[2]->await());
});

test('reconnect: a connection that was lost while idle is noticed, and no request is lost', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'first');
        $peer->close();
        $stage->report('closed');
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'second');
        $peer->answer($peer->next(), 0, 'third');
    });
    $client = Client::connect($stage->socket);
    same('first', $client->call('a.b'));
    $stage->heard();
    same('second', $client->call('a.b'), 'not idempotent, but it can\'t have been read');
    $client->push('q');
});

test('reconnect: no request is lost on an idle connection, with a large request and with many', function (): void {
    foreach ([fn (Client $c) => $c->call('a.b', str_repeat('x', 300_000)), fn (Client $c) => $c->pushMany('q', array_fill(0, 2000, str_repeat('x', 100)))] as $ask) {
        $stage = new Stage(function (Stage $stage): void {
            $peer = $stage->welcome();
            $peer->answer($peer->next(), 0, 'first');
            $peer->close();
            $stage->report('closed');
            $peer = $stage->welcome();
            while ($request = $peer->next()) {
                $peer->answer($request, 0, 'ok');
            }
        });
        $client = Client::connect($stage->socket);
        $client->call('a.b');
        $stage->heard();
        $got = $ask($client);
        same(is_array($got) ? array_fill(0, 2000, 'ok') : 'ok', $got);
    }
});

test('reconnect: a server that restarts', function (): void {
    $first = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'old');
    });
    $client = Client::connect($first->socket, reconnectFor: 20);
    same('old', $client->call('a.b'));
    Processes::end($first->pid);
    unlink($first->socket);
    // The next server must start only after the client has failed to connect; detect that without a fixed wait.
    $socket = $first->socket;
    $second = Processes::fork(function () use ($socket): void {
        $stage = new Stage(function (Stage $stage): void {
            $peer = $stage->welcome();
            while ($request = $peer->next()) {
                $peer->answer($request, 0, 'new');
            }
        }, $socket);
        pcntl_waitpid($stage->pid, $status);
    });
    same('new', $client->call('a.b', timeout: 20));
});

test('reconnect: retries end at the call\'s deadline', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $stage->welcome()->next();
    });
    $client = Client::connect($stage->socket, reconnectFor: 60);
    $start = hrtime(true);
    throws(ConnectionLost::class, fn () => $client->call('a.b', timeout: 0.3, idempotent: true));
    holds(hrtime(true) - $start < 5e9, 'took ' . (hrtime(true) - $start) / 1e9);
});

test('reconnect: without reconnectFor a missing server is reported at once', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $stage->welcome();
    });
    $client = Client::connect($stage->socket);
    Processes::end($stage->pid);
    unlink($stage->socket);
    same(true, throws(ConnectionRefused::class, fn () => $client->call('a.b'))->notProcessed);
});

test('deadline: the server reports it', function (): void {
    $client = Client::connect(answering(fn (Frame $r) => [4, 'deadline exceeded', 0, [], 0x40])->socket);
    same(true, throws(DeadlineExceeded::class, fn () => $client->call('a.b', timeout: 5))->notProcessed);
});

test('deadline: if the server does not answer, the client closes the connection', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $stage->report(shown($peer->next())['ttl']);
        $stage->report($peer->next() === null ? 'closed' : 'still open');
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'fresh');
    });
    $client = Client::connect($stage->socket, timeout: 0.05);
    $start = hrtime(true);
    $e = throws(DeadlineExceeded::class, fn () => $client->call('a.b'));
    $took = (hrtime(true) - $start) / 1e9;
    holds($took >= 0.29 && $took < 3, "took $took");
    same([4, false], [$e->status, $e->notProcessed]);
    holds($stage->heard() <= 50, 'ttl');
    same('closed', $stage->heard());
    same('fresh', $client->call('a.b', timeout: 20));
});

test('deadline: a server that does not even read', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        for ($peers = []; ; $peers[] = $stage->accept());
    });
    $client = Client::connect($stage->socket);
    throws(DeadlineExceeded::class, fn () => $client->call('a.b', str_repeat('x', 4_000_000), timeout: 0.05));
    throws(DeadlineExceeded::class, fn () => $client->callAll(array_fill(0, 1000, ['a.b', str_repeat('x', 20_000)]), timeout: 0.05));
});

test('unexpected answers are skipped', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        while ($request = $peer->next()) {
            $stray = clone $request;
            $stray->id ^= 0x5A5A5A5A;
            $peer->answer($stray, 0, 'stray');
            $peer->answer($request, 0, 'right');
            $peer->answer($stray, 0, 'stray');
        }
    });
    $client = Client::connect($stage->socket);
    same(['right', 'right', 'right'], [$client->call('a.b'), $client->call('a.b'), $client->call('a.b')]);
});

test('a PING is answered, even in the middle of a call', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $request = $peer->next();
        $peer->send(Frame::of(Type::PING, id: 7));
        $pong = $peer->next();
        $peer->answer($request, 0, "$pong->type $pong->id");
    });
    same('8 7', Client::connect($stage->socket)->call('a.b'));
});

test('a rejected connection fails all requests in flight, without a retry', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->next();
        $peer->send(Frame::of(Type::RES, code: 3, body: 'bad frame'));
        $peer->close();
        $stage->report('closed');
        $stage->welcome();
        $stage->report('connected again');
    });
    $client = Client::connect($stage->socket);
    $calls = [$client->callAsync('a.b', idempotent: true), $client->callAsync('a.c')];
    same(['a.b: bad frame', 'a.c: bad frame'], array_map(fn ($c) => throws(\Stoker\InvalidRequest::class, fn () => $c->await())->getMessage(), $calls));
});

test('invalid frames from the server end the connection, not the client', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->next();
        fwrite($peer->socket, 'HTTP/1.1 400 Bad Request');
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'well');
    });
    $client = Client::connect($stage->socket);
    throws(ConnectionLost::class, fn () => $client->call('a.b'));
    same('well', $client->call('a.b'));
});

test('drain: after GOAWAY the next call opens a new connection', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $request = $peer->next();
        $peer->send(Frame::of(Type::GOAWAY));
        $peer->answer($request, 0, 'old');
        $stage->report($peer->next() === null);
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'new');
    });
    $client = Client::connect($stage->socket);
    same(['old', 'new'], [$client->call('a.b'), $client->call('a.b')]);
    same(true, $stage->heard(), 'the old connection was closed');
});

test('drain: requests that a draining server rejects on new connections are retried with reconnectFor', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        for ($i = 0; $i < 3; $i++) {
            $peer = $stage->welcome();
            $peer->answer($peer->next(), 14, 'draining', 0, [], 0x40);
        }
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'up');
    });
    same('up', Client::connect($stage->socket, reconnectFor: 20)->call('a.b'));
    $unhealthy = answering(fn () => [14, 'unhealthy', 0, [], 0x40]);
    throws(\Stoker\Unavailable::class, fn () => Client::connect($unhealthy->socket, reconnectFor: 0.2)->call('a.b'));
    $ran = answering(fn () => [14, 'it may have run']);
    throws(\Stoker\Unavailable::class, fn () => Client::connect($ran->socket, reconnectFor: 20)->call('a.b'));
});

test('drain: a client retries rejected requests only with reconnectFor', function (): void {
    $server = function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->send(Frame::of(Type::GOAWAY));
        $peer->answer($peer->next(), 14, 'draining', 0, [], 0x40);
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'new');
    };
    // The first request is sent before GOAWAY has been read.
    same('new', Client::connect((new Stage($server))->socket, reconnectFor: 20)->call('a.b'));
    throws(\Stoker\Unavailable::class, fn () => Client::connect((new Stage($server))->socket)->call('a.b'));
});

test('fork: the child opens its own connection, and the parent keeps its own', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $parent = $stage->welcome();
        $parent->answer($parent->next(), 0, 'parent');
        $child = $stage->accept();
        $hello = $child->welcome();
        $child->answer($child->next(), 0, (string) $hello['pid']);
        $parent->answer($parent->next(), 0, 'parent again');
    });
    $client = Client::connect($stage->socket);
    same('parent', $client->call('a.b'));
    [$mine, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $pid = Processes::fork(function () use ($client, $theirs): void {
        fwrite($theirs, $client->call('a.b') . "\n");
    });
    same("$pid\n", fgets($mine));
    Processes::end($pid);
    same('parent again', $client->call('a.b'));
});

test('after an exception in the middle of a call, the next call gets its own answer', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $stage->report($peer->next()->name);
        $peer->next();
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'in step');
    });
    $client = Client::connect($stage->socket);
    pcntl_async_signals(true);
    pcntl_signal(SIGUSR1, static fn () => throw new \RuntimeException('struck'));
    $me = getmypid();
    $killer = Processes::fork(function () use ($stage, $me): void {
        $stage->heard();
        posix_kill($me, SIGUSR1);
        // A signal does not end fread(). Close the connection, so that fread() returns and the exception is thrown.
        posix_kill($stage->pid, SIGKILL);
    });
    try {
        throws(\RuntimeException::class, fn () => $client->call('a.b'));
    } finally {
        pcntl_signal(SIGUSR1, SIG_DFL);
        pcntl_async_signals(false);
    }
    unlink($stage->socket);
    $again = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'in step');
    }, $stage->socket);
    same('in step', $client->call('a.b'));
});

test('persistent: the next script reuses an idle connection, but not one with requests in flight', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        while (true) {
            $peer = $stage->welcome();
            $stage->report('hello');
            while ($request = $peer->next()) {
                $stage->report($request->name);
                $request->name === 'a.hang' || $peer->answer($request, 0, $request->name);
            }
        }
    });
    // Two clients of one process simulate two scripts of one php-fpm child: PHP gives them the same stream.
    $client = Client::connect($stage->socket, persistent: true);
    same('a.one', $client->call('a.one'));
    unset($client);
    $client = Client::connect($stage->socket, persistent: true);
    same('a.two', $client->call('a.two'));
    same(['hello', 'a.one', 'a.two'], [$stage->heard(), $stage->heard(), $stage->heard()]);
    throws(DeadlineExceeded::class, fn () => $client->call('a.hang', timeout: 0.01));
    unset($client);
    same('a.three', Client::connect($stage->socket, persistent: true)->call('a.three'));
    same(['a.hang', 'hello', 'a.three'], [$stage->heard(), $stage->heard(), $stage->heard()]);
});

test('connect: if access to the socket is denied, the error names its owner and group', function (): void {
    if (!function_exists('posix_seteuid') || posix_geteuid() !== 0) {
        return; // Only root can switch to a user who may not open the socket.
    }
    mkdir($dir = Stage::path() . '.d');
    $stage = new Stage(static fn (Stage $stage) => $stage->welcome()->next(), "$dir/s.sock");
    class_exists(ConnectionRefused::class);
    $refused = function (int $dirMode) use ($stage, $dir): string {
        chmod($dir, $dirMode);
        chmod($stage->socket, 0640);
        posix_seteuid(65534);
        try {
            return throws(ConnectionRefused::class, fn () => Client::connect($stage->socket)->call('a.b'))->getMessage();
        } finally {
            posix_seteuid(0);
        }
    };
    $whose = 'it belongs to user root and group root, with mode 0640; the server\'s configuration sets these as socket_group and socket_mode of [stoker]';
    holds(str_contains($message = $refused(0755), "permission denied for Stoker's socket") && str_contains($message, $whose), $message);
    holds(str_contains($message = $refused(0700), 'this user has no permission to search a directory of its path'), $message);
    unlink($stage->socket);
    rmdir($dir);
});
