<?php

// Tests workers of a server on another machine: sessions that outlive lost connections.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Internal\UnconfirmedAnswers;
use Stoker\Wire\Frame;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

/** A worker process of tests/fixtures/remote.php. */
final class Remote
{
    /** @var resource */
    private $process;
    /** @var array<int, resource> */
    private array $pipes;

    /** @param array<string, mixed> $options parameters of Worker::create(), or of Inbox::open() if $kind is "inbox" */
    public function __construct(string $address, array $options = [], string $kind = 'worker', array $env = [])
    {
        [$this->process, $this->pipes] = Processes::php(
            [__DIR__ . '/fixtures/remote.php', json_encode((object) $options), $kind],
            [1 => ['pipe', 'w'], 2 => ['pipe', 'w']],
            $env + ['STOKER_URL' => $address, 'STOKER_TOKEN' => 'secret'],
        );
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    /** Waits until the process has ended, and returns what it has printed. */
    public function stdout(): string
    {
        return stream_get_contents($this->pipes[1]);
    }

    public function stderr(): string
    {
        return stream_get_contents($this->pipes[2]);
    }
}

/** Runs a fake server and a worker that connects to it. The server must end the worker with GOAWAY. */
function served(\Closure $server, array $options = [], string $kind = 'worker', string $how = 'tcp', array $env = []): array
{
    $stage = new Stage(function (Stage $stage) use ($server): void {
        try {
            $server($stage);
            $stage->report('');
        } catch (\Throwable $e) {
            $stage->report("$e");
        }
    }, $how);
    $worker = new Remote($stage->socket, $options, $kind, $env);
    for ($reports = []; ($report = $stage->heard()) !== ''; $reports[] = $report) {
        is_string($report) && throw new Failure($report);
    }

    return [$worker, $reports];
}

/** WELCOME of a session. */
function session(string $id = 's1', array $more = []): array
{
    return $more + ['session' => $id, 'grace_ms' => 10_000, 'worker' => 'app-7', 'pool' => 'app'];
}

/** The next frames of a peer, as "type:id:code:body"; events of kind log are left out. */
function answers(Peer $peer, int $count): array
{
    for ($shown = []; count($shown) < $count;) {
        $frame = $peer->next() ?? throw new Failure('the worker closed the connection after ' . json_encode($shown));
        if ($frame->type !== Type::EVENT) {
            $shown[] = "$frame->type:$frame->id:$frame->code:$frame->body";
        }
    }

    return $shown;
}

/** Waits until a task has started, which it reports with a line of its log. */
function started(Peer $peer, string $line = "spins\n"): void
{
    $frame = $peer->next();
    same([Type::EVENT, $line], [$frame?->type, $frame?->body], 'the task starts');
}

/** Ends a worker in an orderly way. */
function dismiss(Peer $peer): void
{
    $peer->send(Frame::of(Type::GOAWAY));
    stream_socket_shutdown($peer->socket, STREAM_SHUT_WR);
    for (; $frame = $peer->next(); same(false, $frame->type === Type::RES, 'an unexpected answer'));
}

test('session: HELLO has the token and, the first time, no session', function (): void {
    foreach (['tcp', 'tls'] as $how) {
        served(static function (Stage $stage): void {
            $peer = $stage->accept();
            $hello = $peer->welcome(session());
            same(['worker', 'secret', 'remote', false, false], [$hello['role'], $hello['token'], $hello['pool'], isset($hello['session']), isset($hello['held'])]);
            $peer->send(Probe::call('t.echo', 'hi', 1));
            same(['2:1:0:hi'], answers($peer, 1));
            dismiss($peer);
        }, how: $how, env: ['STOKER_POOL' => 'remote']);
    }
});

test('session: an answer that was lost with the connection is written again, byte for byte', function (): void {
    foreach (['tcp', 'tls'] as $how) {
        served(static function (Stage $stage): void {
            $peer = $stage->accept();
            $peer->welcome(session());
            $peer->send(Probe::call('t.echo', 'one', 5), Probe::call('t.echo', 'two', 6));
            $lost = [$peer->next(), $peer->next()];
            $peer->close();
            $peer = $stage->accept();
            $hello = $peer->welcome(['resumed' => true, 'open' => [6]]);
            same(['s1', [5, 6], 'secret'], [$hello['session'], $hello['held'], $hello['token']]);
            same($lost[1]->encode(), $peer->next()->encode());
            // The answer to 5 was forgotten, and the session goes on.
            $peer->send(Probe::call('t.echo', 'three', 7));
            same(['2:7:0:three'], answers($peer, 1));
            $peer->close();
            $peer = $stage->accept();
            $hello = $peer->welcome(session('s1', ['resumed' => true, 'open' => []]));
            same(['s1', [6, 7]], [$hello['session'], $hello['held']]);
            $peer->send(Probe::call('t.echo', 'four', 6));
            same(['2:6:0:four'], answers($peer, 1), 'a new task with the id of an old one');
            dismiss($peer);
        }, how: $how);
    }
});

test('session: waiting tasks continue unless they were settled, and tasks that never arrived are sent again', function (): void {
    served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        $peer->send(Probe::call('t.spin', '0.2', 1), Probe::call('t.echo', 'two', 2), Probe::call('t.echo', 'three', 3));
        started($peer);
        $peer->close();
        $peer = $stage->accept();
        same([1, 2, 3], $peer->welcome(session('s1', ['resumed' => true, 'open' => [1, 3, 9]]))['held']);
        $peer->send(Probe::call('t.echo', 'nine', 9));
        same(['2:1:0:spun', '2:3:0:three', '2:9:0:nine'], answers($peer, 3));
        dismiss($peer);
    });
});

test('session: if it cannot be resumed, waiting tasks and kept answers are dropped', function (): void {
    [$worker] = served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        $peer->send(Probe::call('t.echo', 'one', 1), Probe::call('t.spin', '0.2', 2), Probe::call('t.echo', 'three', 3), Probe::call('t.echo', 'four', 4), Frame::of(Type::CANCEL, id: 4));
        same(['2:1:0:one'], answers($peer, 1));
        started($peer);
        $peer->close();
        $peer = $stage->accept();
        $hello = $peer->welcome(session('s2'));
        same(['s1', [1, 2, 3, 4]], [$hello['session'], $hello['held']]);
        $peer->send(Probe::call('t.echo', 'new', 4));
        same(['2:4:0:new'], answers($peer, 1), 'the first answer is that to the new task');
        $peer->close();
        $peer = $stage->accept();
        $hello = $peer->welcome(session('s2', ['resumed' => true]));
        same(['s2', [4]], [$hello['session'], $hello['held']]);
        dismiss($peer);
    });
    // The worker noticed the loss when it wrote its second answer after it.
    same(["after run\n", "stoker: the answer to task 3 (t.echo) was dropped: this worker reconnected too late, after the server had ended its session\n"], [$worker->stdout(), $worker->stderr()]);
});

test('session: a task that rests notices the loss, and its late answer is not written', function (): void {
    [$worker] = served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        $peer->send(Probe::job('rest', '60', 1), Probe::call('t.echo', 'two', 2));
        started($peer, "rests\n");
        $peer->close();
        $peer = $stage->accept();
        $hello = $peer->welcome(session('s1', ['resumed' => true, 'open' => [1, 2]]));
        same([2, 1], $hello['held']);
        $peer->send(Frame::of(Type::PING, id: 3));
        same(['8:3:0:'], answers($peer, 1), 'it rests on');
        $peer->close();
        $peer = $stage->accept();
        $peer->welcome(session('s2'));
        // The output of the old task is missing: its id belongs to a new task now.
        $peer->send(Probe::call('t.echo', 'new', 1));
        same([Type::RES, 1, 'new'], [($f = $peer->next())->type, $f->id, $f->body]);
        $peer->send(Probe::job('rest', '0', 4));
        started($peer, "rests\n");
        started($peer, "rested\n");
        same(['2:4:0:true'], answers($peer, 1));
        dismiss($peer);
    });
    same(true, str_contains($worker->stderr(), 'the answer to task 1 (rest) was dropped'));
});

test('session: ack() throws if the connection is lost, and the answer is delivered', function (): void {
    served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        $peer->send(Probe::job('ack', '', 1));
        same([Type::EVENT, 6], [($ack = $peer->next())->type, $ack->code]);
        $peer->close();
        $peer = $stage->accept();
        same([1], $peer->welcome(session('s1', ['resumed' => true, 'open' => [1]]))['held']);
        same(['2:1:0:ack: the connection to Stoker was lost; it is unknown whether the job was acknowledged'], answers($peer, 1));
        dismiss($peer);
    });
});

test('session: an idle worker sends PINGs, and reconnects if nothing arrives', function (): void {
    served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        for ($n = 0; $n < 3; $n++) {
            same(Type::PING, ($ping = $peer->next())->type);
            $peer->send(Frame::of(Type::PONG, id: $ping->id));
        }
        $peer->send(Probe::call('t.echo', 'x', 1));
        same(['2:1:0:x'], answers($peer, 1));
        $silent = $peer;
        $peer = $stage->accept();
        same([1], $peer->welcome(session('s1', ['resumed' => true]))['held']);
        dismiss($peer);
    }, ['keepalive' => 0.1]);
});

test('session: after GOAWAY a lost connection is the end', function (): void {
    [$worker] = served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        $peer->send(Probe::call('t.echo', 'x', 1), Frame::of(Type::GOAWAY));
        same(['2:1:0:x'], answers($peer, 1));
        $peer->close();
    });
    same("after run\n", $worker->stdout());
});

test('session: a worker that stops makes sure that the server has its last answer', function (): void {
    [$worker] = served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        $peer->send(Probe::call('t.stop', '0.2', 1));
        started($peer);
        $peer->close(); // The answer is written, but nobody reads it.
        $peer = $stage->accept();
        same([1], $peer->welcome(session('s1', ['resumed' => true, 'open' => [1]]))['held']);
        same([[Type::RES, 1, 0], [Type::PING, 2, 0]], frames($peer->next(), $peer->next()));
        $peer->close(); // This one is lost, too.
        $peer = $stage->accept();
        same([1], $peer->welcome(session('s1', ['resumed' => true, 'open' => [1]]))['held']);
        same([[Type::RES, 1, 0], [Type::PING, 2, 0]], frames($peer->next(), $peer->next()));
        $peer->send(Probe::call('t.echo', 'never', 2), Frame::of(Type::PONG, id: 2));
        same([[Type::GOAWAY, 0, 0]], frames($peer->next()));
        same(null, $peer->next());
    });
    same("after run\n", $worker->stdout());
});

test('session: TERM ends a worker that has no connection, unless it has an answer to deliver', function (): void {
    [$worker] = served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $hello = $peer->welcome(session());
        $peer->send(Probe::call('t.spin', '0.2', 1));
        started($peer);
        posix_kill($hello['pid'], SIGTERM);
        $peer->close();
        $peer = $stage->accept();
        same([1], $peer->welcome(session('s1', ['resumed' => true, 'open' => [1]]))['held']);
        same([[Type::RES, 1, 0], [Type::PING, 2, 0]], frames($peer->next(), $peer->next()));
        $peer->send(Frame::of(Type::PONG, id: 2));
        same([[Type::GOAWAY, 0, 0]], frames($peer->next()));
    });
    same(["after run\n", ''], [$worker->stdout(), $worker->stderr()]);
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        $peer->send(Probe::call('t.echo', '', 1));
        same([[Type::RES, 1, 0], [Type::PING, 2, 0]], frames($peer->next(), $peer->next()));
        $peer->send(Frame::of(Type::PONG, id: 2));
        $peer->next(); // The PONG has been read before this PING is sent.
        $stage->report('confirmed');
        $peer->next();
    }, 'tcp');
    $worker = new Remote($stage->socket, ['keepalive' => 0.05]);
    same('confirmed', $stage->heard());
    Processes::end($stage->pid);
    posix_kill($worker->pid(), SIGTERM);
    same(["after run\n", ''], [$worker->stdout(), $worker->stderr()]);
});

test('session: when reconnectFor is over, run() throws and says why', function (): void {
    $stage = new Stage(fn (Stage $stage) => $stage->welcome(session())->close(), 'tcp');
    $worker = new Remote($stage->socket, ['reconnectFor' => 0.3]);
    $out = $worker->stdout();
    holds((bool) preg_match('/Stoker.ConnectionLost: the connection to Stoker was lost \(closed by the server\), and all attempts to reconnect in the last \d seconds have failed: .* \(Connection refused\)/', $out), $out);
});

test('session: a worker that is rejected ends with the server\'s text, at first and when it reconnects', function (): void {
    foreach ([0, 1] as $before) {
        $stage = new Stage(function (Stage $stage) use ($before): void {
            for ($i = 0; $i < $before; $i++) {
                $stage->welcome(session())->close();
            }
            $peer = $stage->accept();
            $peer->next();
            $peer->send(Frame::of(Type::RES, code: Status::UNAUTHENTICATED, body: 'the token was revoked'));
            $peer->close();
            $stage->report('rejected');
            $stage->accept();
        }, 'tcp');
        $out = (new Remote($stage->socket))->stdout();
        holds(str_contains($out, 'Stoker\PermissionDenied: Stoker rejected this worker: the token was revoked'), $out);
        same('rejected', $stage->heard());
    }
});

test('session: a server without room is tried again, at first and when the worker reconnects', function (): void {
    served(static function (Stage $stage): void {
        $reject = static function (int $status) use ($stage): void {
            $peer = $stage->accept();
            $peer->next();
            $peer->send(Frame::of(Type::RES, code: $status, body: 'later'));
            $peer->close();
        };
        $reject(Status::RESOURCE_EXHAUSTED);
        $reject(Status::UNAVAILABLE);
        $stage->welcome(session())->close();
        $reject(Status::UNAVAILABLE);
        $reject(Status::RESOURCE_EXHAUSTED);
        $peer = $stage->accept();
        same('s1', $peer->welcome(session('s1', ['resumed' => true]))['session']);
        dismiss($peer);
    });
    $full = new Stage(function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->next();
        $peer->send(Frame::of(Type::RES, code: Status::RESOURCE_EXHAUSTED, body: 'full'));
        $peer->close();
    }, 'tcp');
    $out = (new Remote($full->socket, ['reconnectFor' => 0]))->stdout();
    holds(str_contains($out, 'Stoker\Overloaded: Stoker rejected this worker: full'), $out);
});

test('session: while it can be resumed, the worker tries the same server, then the others', function (): void {
    $other = new Stage(function (Stage $stage): void {
        $peer = $stage->accept();
        $stage->report($peer->welcome(session('s2'))['held']);
        dismiss($peer);
        $stage->report('dismissed');
    }, 'tcp');
    $first = new Stage(function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session('s1', ['grace_ms' => 400]));
        $peer->send(Probe::call('t.echo', 'x', 1));
        answers($peer, 1);
        $stage->report('ends');
        $peer->next();
    }, 'tcp');
    $worker = new Remote("{$first->socket},{$other->socket}");
    same('ends', $first->heard());
    $start = hrtime(true);
    Processes::end($first->pid);
    same([1], $other->heard());
    holds(hrtime(true) - $start > 350e6, 'not before the server would have forgotten the session');
    same('dismissed', $other->heard());
    same("after run\n", $worker->stdout());
});

test('session: an inbox that is rejected throws, and is closed', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $stage->welcome(session())->close();
        $peer = $stage->accept();
        $peer->next();
        $peer->send(Frame::of(Type::RES, code: Status::PERMISSION_DENIED, body: 'the token may not serve this pool'));
        $peer->close();
    }, 'tcp');
    $inbox = \Stoker\Inbox::open(socket: $stage->socket);
    putenv('STOKER_WORKER');
    same('Stoker rejected this worker: the token may not serve this pool', throws(\Stoker\PermissionDenied::class, fn () => $inbox->take(20))->getMessage());
    same([true, null], [$inbox->isClosed(), $inbox->take(20)]);
});

test('session: a client in a handler uses STOKER_URL and STOKER_TOKEN', function (): void {
    served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        $peer->send(Probe::call('t.nested', '', 1));
        $client = $stage->accept();
        $hello = $client->welcome();
        same(['client', 'secret', 'app-7'], [$hello['role'], $hello['token'], $hello['worker']]);
        $client->answer($client->next(), 0, 'nested');
        same(['2:1:0:["nested","app-7",false]'], answers($peer, 1));
        dismiss($peer);
    });
});

test('session: an inbox requests its next task again over a new connection', function (): void {
    $gate = Stage::path();
    posix_mkfifo($gate, 0600);
    [$worker] = served(static function (Stage $stage) use ($gate): void {
        $peer = $stage->accept();
        $hello = $peer->welcome(session());
        same([true, 'secret'], [$hello['pull'], $hello['token']]);
        same([[Type::READY, 0, 1]], frames($peer->next()));
        $peer->close();
        $peer = $stage->accept();
        same([], $peer->welcome(session('s1', ['resumed' => true]))['held']);
        same([[Type::READY, 0, 1]], frames($peer->next()));
        $peer->send(Probe::job('q', $gate, 4));
        started($peer);
        $peer->close(); // The answer cannot be written, or is lost.
        fclose(fopen($gate, 'w'));
        $peer = $stage->accept();
        same([4], $peer->welcome(session('s1', ['resumed' => true, 'open' => [4, 5]]))['held']);
        same(["2:4:0:$gate"], answers($peer, 1));
        // Task 5 was assigned and lost: it counts as the answer to the READY before.
        $peer->send(Probe::job('q', 'five', 5));
        same(['2:5:0:five'], answers($peer, 1));
        same([[Type::READY, 0, 1]], frames($peer->next()));
        $peer->send(Frame::of(Type::GOAWAY));
        $peer->close();
    }, kind: 'inbox');
    same(["closed\n", ''], [$worker->stdout(), $worker->stderr()]);
});

test('session: an inbox does not start a task that arrived right before the loss until it knows that it still has it', function (): void {
    [$worker] = served(static function (Stage $stage): void {
        $peer = $stage->accept();
        $peer->welcome(session());
        same([[Type::READY, 0, 1], [Type::READY, 0, 0]], frames($peer->next(), $peer->next()));
        $peer->send(Probe::job('q', 'crossed', 3));
        $peer->close();
        $peer = $stage->accept();
        $peer->next();
        $peer->send(Frame::of(Type::RES, code: Status::UNAVAILABLE, body: 'not yet'));
        $peer->close();
        $peer = $stage->accept();
        same([3], $peer->welcome(session('s2'))['held']);
        // The withdrawal was lost with its connection: only the next one awaits a confirmation.
        same([[Type::READY, 0, 1], [Type::READY, 0, 0]], frames($peer->next(), $peer->next()));
        $peer->send(Frame::of(Type::READY));
        same([[Type::READY, 0, 1]], frames($peer->next()));
        $peer->send(Frame::of(Type::GOAWAY));
        $peer->close();
    }, kind: 'inbox');
    same(["closed\n", ''], [$worker->stdout(), $worker->stderr()], 'it has not run');
});

test('session: an inbox whose server stays away is closed', function (): void {
    $stage = new Stage(fn (Stage $stage) => $stage->welcome(session())->close(), 'tcp');
    $worker = new Remote($stage->socket, ['reconnectFor' => 0.3], 'inbox');
    same("closed\n", $worker->stdout());
    holds(str_contains($err = $worker->stderr(), 'stoker: the connection to Stoker was lost'), $err);
});

test('session: answers are kept until 64 further tasks have arrived', function (): void {
    $answers = new UnconfirmedAnswers();
    foreach ([1, 2] as $id) {
        $answers->onTask($id);
        $answers->keep($id, "answer $id");
    }
    for ($id = 101; $id <= 163; $id++) {
        $answers->onTask($id);
    }
    same([2], $answers->ids(), 'the 64th task after 1 has arrived, and the 63rd after 2');
    $answers->onTask(164);
    same([], $answers->ids());
    $answers->keep(7, 'seven');
    $answers->keep(8, 'eight');
    $answers->onTask(7);
    same([8], $answers->ids(), 'a new task has the id of 7, so the server has its answer');
    same(['', []], [$answers->select([]), $answers->ids()]);
});

test('session: at most 4 MiB of answers are kept, and errors instead of the oldest, so that no task runs twice', function (): void {
    $answers = new UnconfirmedAnswers();
    for ($id = 1; $id <= 6; $id++) {
        $answers->keep($id, str_repeat((string) $id, 1 << 20));
    }
    same([1, 2, 3, 4, 5, 6], $answers->ids());
    $frames = $answers->select([2 => true, 4 => true, 9 => true]);
    same(true, str_contains($frames, 'too large to be kept'), 'the answer to 2');
    same(1 << 20, substr_count($frames, '4'), 'the answer to 4');
    $answers->keep(5, str_repeat('x', (4 << 20) + 1));
    same([2, 4, 5], $answers->ids());
    same(true, strlen($answers->select([5 => true])) < 200, 'one that is too large');
});
