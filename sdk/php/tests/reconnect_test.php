<?php

// Connections that end, brokers that are silent, and what the client makes of it.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Client;
use Stoker\ConnectionLost;
use Stoker\ConnectionRefused;
use Stoker\DeadlineExceeded;
use Stoker\Wire\Frame;
use Stoker\Wire\Type;

/** A broker that ends its first $n connections right after a request has come, and reports how many came. */
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

test('reconnect: a call that may not run twice is not sent twice', function (): void {
    $client = Client::connect(dying(1)->socket);
    $e = throws(ConnectionLost::class, fn () => $client->call('a.b'));
    holds(str_contains($e->getMessage(), 'may or may not') && !$e->notProcessed, $e->getMessage());
    same('connection 2', $client->call('a.b'), 'the next call opens a new connection');
});

test('reconnect: an idempotent call is sent once more', function (): void {
    same('connection 2', Client::connect(dying(1)->socket)->call('a.b', idempotent: true));
    throws(ConnectionLost::class, fn () => Client::connect(dying(2)->socket)->call('a.b', idempotent: true));
});

test('reconnect: told to be patient, it goes on', function (): void {
    same('connection 4', Client::connect(dying(3)->socket, reconnectFor: 20)->call('a.b', idempotent: true));
    throws(ConnectionLost::class, fn () => Client::connect(dying(1)->socket, reconnectFor: 20)->call('a.b'));
});

test('reconnect: pushes likewise, by their idempotency key', function (): void {
    $e = throws(ConnectionLost::class, fn () => Client::connect(dying(1)->socket)->push('q'));
    same(false, $e->notProcessed);
    same('connection 2', Client::connect(dying(1)->socket)->push('q', idempotencyKey: 'k'));
    $e = throws(ConnectionLost::class, fn () => Client::connect(dying(1)->socket)->pushMany('q', ['a', 'b']));
    same([], $e->accepted);
});

test('reconnect: of many calls only those that may', function (): void {
    $client = Client::connect(dying(1)->socket);
    $calls = [$client->callAsync('a.b'), $client->callAsync('a.b', idempotent: true), $client->callAsync('a.b')];
    throws(ConnectionLost::class, fn () => $calls[0]->await());
    same('connection 2', $calls[1]->await());
    throws(ConnectionLost::class, fn () => $calls[2]->await());
});

test('reconnect: a connection that died while idle is noticed, and nothing is lost', function (): void {
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

test('reconnect: the same for a large request, and for many', function (): void {
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

test('reconnect: a broker that comes back', function (): void {
    $first = new Stage(function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'old');
    });
    $client = Client::connect($first->socket, reconnectFor: 20);
    same('old', $client->call('a.b'));
    Processes::end($first->pid);
    unlink($first->socket);
    // Its successor starts when the client has found nobody: a listener that appears later, without a clock.
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

test('reconnect: patience ends with the call\'s own time', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $stage->welcome()->next();
    });
    $client = Client::connect($stage->socket, reconnectFor: 60);
    $start = hrtime(true);
    throws(ConnectionLost::class, fn () => $client->call('a.b', timeout: 0.3, idempotent: true));
    holds(hrtime(true) - $start < 5e9, 'took ' . (hrtime(true) - $start) / 1e9);
});

test('reconnect: nobody there, and no patience', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $stage->welcome();
    });
    $client = Client::connect($stage->socket);
    Processes::end($stage->pid);
    unlink($stage->socket);
    same(true, throws(ConnectionRefused::class, fn () => $client->call('a.b'))->notProcessed);
});

test('deadline: the broker says it', function (): void {
    $client = Client::connect(answering(fn (Frame $r) => [4, 'deadline exceeded', 0, [], 0x40])->socket);
    same(true, throws(DeadlineExceeded::class, fn () => $client->call('a.b', timeout: 5))->notProcessed);
});

test('deadline: a silent broker is given up, and its connection too', function (): void {
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

test('deadline: a broker that does not even read', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        for ($peers = []; ; $peers[] = $stage->accept());
    });
    $client = Client::connect($stage->socket);
    throws(DeadlineExceeded::class, fn () => $client->call('a.b', str_repeat('x', 4_000_000), timeout: 0.05));
    throws(DeadlineExceeded::class, fn () => $client->callAll(array_fill(0, 1000, ['a.b', str_repeat('x', 20_000)]), timeout: 0.05));
});

test('answers that nobody waits for are skipped', function (): void {
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

test('a fault of the connection is told to all who wait, and not repeated', function (): void {
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

test('garbage from the broker ends the connection, not the client', function (): void {
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

test('drain: after GOAWAY the next call takes a new connection', function (): void {
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

test('drain: a connection opened while the broker drains is refused without GOAWAY', function (): void {
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

test('drain: a refusal because of it is tried again by a patient client only', function (): void {
    $broker = function (Stage $stage): void {
        $peer = $stage->welcome();
        $peer->send(Frame::of(Type::GOAWAY));
        $peer->answer($peer->next(), 14, 'draining', 0, [], 0x40);
        $peer = $stage->welcome();
        $peer->answer($peer->next(), 0, 'new');
    };
    // The first request goes out before GOAWAY has been read.
    same('new', Client::connect((new Stage($broker))->socket, reconnectFor: 20)->call('a.b'));
    throws(\Stoker\Unavailable::class, fn () => Client::connect((new Stage($broker))->socket)->call('a.b'));
});

test('fork: the child opens its own connection, the parent keeps its', function (): void {
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

test('an exception thrown in the middle of a call does not leave the next one out of step', function (): void {
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
        // fread() waits on when a signal comes; bytes let it return, and the exception out.
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

test('persistent: a clean connection is used by the next script, a dirty one is not', function (): void {
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
    // Two clients of one process stand for two scripts of one php-fpm child: PHP hands them the same stream.
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

test('connect: who may not open the socket is told who may', function (): void {
    if (!function_exists('posix_seteuid') || posix_geteuid() !== 0) {
        return; // Nothing is closed to others, and root can't be kept out.
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
    $whose = 'it is for user root and group root, with mode 0640; socket_group and socket_mode of [stoker]';
    holds(str_contains($message = $refused(0755), "this user may not open Stoker's socket") && str_contains($message, $whose), $message);
    holds(str_contains($message = $refused(0700), 'a directory on the way to it is closed to this user'), $message);
    unlink($stage->socket);
    rmdir($dir);
});
