<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionLost;
use Stoker\ConnectionRefused;
use Stoker\InvalidRequest;
use Stoker\Pending;
use Stoker\StokerException;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\Status;
use Stoker\Wire\Type;
use Stoker\Wire\WireError;

/**
 * Sends a client's requests in batches and matches the answers to them. When the connection is lost, it opens a new one
 * and repeats the requests that may be repeated.
 *
 * All of this happens inside the methods that the client calls; nothing runs in the background.
 *
 * @internal
 */
final class Link
{
    /** Bytes of queued requests after which they are sent even if no request is awaited. */
    private const BATCH_BYTES = 65536;

    /** Maximum number of requests in flight until WELCOME states the server's limit. */
    private const INITIAL_IN_FLIGHT = 64;

    /**
     * Nanoseconds to wait after a request's deadline for the server's own timeout answer, which also says whether the
     * task was started.
     */
    private const GRACE = 250_000_000;

    /** Nanoseconds to wait for the reason why the server closed a new connection. */
    private const REJECTION_LIMIT = 50_000_000;

    private ?Connection $connection = null;
    /** Frames that are queued to be sent. */
    private string $out = '';
    /** @var list<array{Pending, int}> the requests in $out, each with the offset of its end */
    private array $ends = [];
    /** @var array<int, Pending> requests without an answer, by id */
    private array $waiting = [];
    private int $lastId;
    /** Maximum number of requests in flight; null until WELCOME has been read. */
    private ?int $maxInFlight = null;
    /** Maximum length of a request frame. Until WELCOME states it, 128 KiB less than the limit of the protocol. */
    private int $maxFrame = Frame::MAX - 131072;
    /** The server sent GOAWAY, or rejected a request as Unavailable: the next request needs a new connection. */
    private bool $draining = false;
    /** Set while step() runs. If step() finds it set, an exception of a signal handler interrupted the previous step. */
    private bool $isStepping = false;
    /** Number of connections that were lost or refused since the last answer. */
    private int $failures = 0;
    /** Warnings that PHP raised for the current connection. */
    private string $warnings = '';
    /** Handler that silences and collects warnings: with @, an application's handler is still called and might throw. */
    private \Closure $onWarning;

    /**
     * @param array<string, mixed> $hello fields of HELLO
     * @param ?string $token        token for remote servers
     * @param float $connectTimeout seconds for one attempt
     * @param float $reconnectFor   seconds for which to keep trying to connect
     * @param float $keepalive      seconds, for remote servers; 0 = off
     */
    public function __construct(
        private Servers $servers,
        private array $hello,
        private ?string $token,
        private bool $persistent,
        private float $connectTimeout,
        private float $reconnectFor,
        private float $keepalive,
    ) {
        // Start at a random id, so that a late answer to an earlier script on a persistent connection matches no request.
        $this->lastId = random_int(1, 0xFFFFFFFF);
        $warnings = &$this->warnings;
        $this->onWarning = static function (int $level, string $message) use (&$warnings): bool {
            $warnings = $message;

            return true;
        };
        if ($persistent) {
            $self = \WeakReference::create($this); // The link must be destroyed together with its client.
            register_shutdown_function(static fn () => $self->get()?->leave());
        }
    }

    public function __destruct()
    {
        $this->leave();
    }

    /**
     * Opens a connection if none is open.
     *
     * @param ?int $until nanoseconds of hrtime() after which no further attempt is made; null = no limit
     * @throws ConnectionRefused
     */
    public function open(?int $until): void
    {
        if ($this->connection !== null && !$this->connection->isMine()) {
            $this->close(); // This is a forked child: the connection and its answers belong to the parent.
        }
        $giveUp = hrtime(true) + (int) ($this->reconnectFor * 1e9);
        $giveUp = min($giveUp, $until ?? $giveUp);
        while ($this->connection === null) {
            try {
                $this->connection = $this->servers->connect($this->dial(...), $this->connectTimeout, $until);
                if ($this->connection->isUsed()) {
                    $this->maxInFlight = self::INITIAL_IN_FLIGHT; // An earlier script has read its WELCOME.
                } else {
                    $this->out = $this->hello();
                }
            } catch (ConnectionRefused $e) {
                $this->failures++;
                if ($e->isMisconfigured || hrtime(true) >= $giveUp) {
                    $e->notProcessed = true;
                    throw $e;
                }
                $this->backOff($giveUp);
            }
        }
    }

    private function dial(Address $address, float $timeout): Connection
    {
        return Connection::open($address, $timeout, $this->persistent, $this->token, $this->keepalive);
    }

    /** The frame HELLO for the current connection. Over a unix socket the server knows the user, so no token is sent. */
    private function hello(): string
    {
        $hello = $this->hello + ['pid' => getmypid()];
        if ($this->token !== null && $this->connection->address->isRemote()) {
            $hello['token'] = $this->token;
        }

        return Frame::of(Type::HELLO, body: json_encode($hello, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE))->encode();
    }

    /** Queues a request. Queued requests are sent when one of them is awaited or BATCH_BYTES have accumulated. */
    public function submit(Pending $request): void
    {
        try {
            for ($this->open($request->deadline); $this->mustWait($request); $this->open($request->deadline)) {
                $this->step($request);
                if ($request->isDone()) {
                    return;
                }
            }
            $this->enqueue($request);
        } catch (ConnectionRefused $e) {
            $request->error = $e;
        }
        if (strlen($this->out) >= self::BATCH_BYTES) {
            $this->step($request, false);
        }
    }

    /** Sends and reads until the request has an answer or an error. */
    public function await(Pending $request): void
    {
        while (!$request->isDone()) {
            isset($this->waiting[$request->id])
                ? $this->step($request)
                : $request->error = self::connectionLost($request, 'interrupted by an exception');
        }
    }

    /** Closes the connection. Requests without an answer fail. */
    public function close(): void
    {
        foreach ($this->drop() as $request) {
            $request->error = self::connectionLost($request, 'closed by close()');
        }
    }

    /**
     * Whether the request must wait: for answers, because too many requests are in flight; for WELCOME, because the
     * request is large and its size limit is not known yet; or for a new connection.
     */
    private function mustWait(Pending $request): bool
    {
        return $this->draining
            || count($this->waiting) >= ($this->maxInFlight ?? self::INITIAL_IN_FLIGHT)
            || $this->maxInFlight === null && $request->size() > self::BATCH_BYTES;
    }

    private function enqueue(Pending $request): void
    {
        do {
            $this->lastId = $this->lastId % 0xFFFFFFFF + 1;
        } while (isset($this->waiting[$this->lastId]));
        $bytes = $request->encode($this->lastId);
        if ($bytes === null) {
            $request->expire('the deadline passed before the request was sent');
        } elseif (strlen($bytes) - 4 > $this->maxFrame) {
            $size = strlen($bytes);
            $request->error = new InvalidRequest("{$request->name}: the request has $size bytes, the maximum is {$this->maxFrame}");
        } else {
            $request->id = $this->lastId;
            $request->sent = false;
            $this->waiting[$this->lastId] = $request;
            $this->out .= $bytes;
            $this->ends[] = [$request, strlen($this->out)];
        }
    }

    /** Sends the queued requests and, if $read is set and $for has no answer yet, reads once. */
    private function step(Pending $for, bool $read = true): void
    {
        if ($this->isStepping) {
            $this->onConnectionLost('interrupted by an exception', $for);

            return;
        }
        $this->isStepping = true;
        $until = $for->deadline === null ? null : $for->deadline + self::GRACE;
        $connection = $this->connection;
        set_error_handler($this->onWarning);
        try {
            $alive = $this->flush($until);
            if (!$alive && $this->maxInFlight === null) {
                // The server may have rejected HELLO and closed the connection before it had read everything.
                $connection->read(hrtime(true) + self::REJECTION_LIMIT);
            }
            $this->take($for);
            if ($alive && $read && !$for->isDone() && $this->connection !== null) {
                $alive = $this->connection->read($until);
                $this->take($for);
            }
            if ($until !== null && !$for->isDone() && hrtime(true) >= $until) {
                // The server did not even report the timeout, so give up the connection, with all requests on it.
                $for->expire('no answer before the deadline; Stoker did not respond');
                unset($this->waiting[$for->id]);
                $alive = false;
            }
            if (!$alive && $this->connection === $connection) {
                $this->onEnd($for);
            }
        } catch (WireError $e) {
            $this->onConnectionLost($e->getMessage(), $for);
        } finally {
            restore_error_handler();
        }
        $this->isStepping = false;
    }

    /** Writes the queued requests; false if not all of them could be written. */
    private function flush(?int $until): bool
    {
        if ($this->out === '') {
            return true;
        }
        foreach ($this->ends as [$request]) {
            $request->sent = true; // In case an exception of a signal handler interrupts the write.
        }
        $sent = $this->connection->write($this->out, $until);
        foreach ($this->ends as [$request, $end]) {
            $request->sent = $end <= $sent;
            if ($request->sent && $request->isOneWay()) {
                $request->answer = new Frame(); // A one-way request gets no other answer.
                unset($this->waiting[$request->id]);
            }
        }
        $isAll = $sent === strlen($this->out);
        $this->out = '';
        $this->ends = [];

        return $isAll;
    }

    /** Processes the frames that have been read. */
    private function take(Pending $for): void
    {
        foreach ($this->connection?->take() ?? [] as $frame) {
            switch ($frame->type) {
                case Type::RES:
                    $frame->id === 0 ? $this->onRejected($frame, $for) : $this->onAnswer($frame);
                    break;
                case Type::WELCOME:
                    $welcome = json_decode($frame->body, true);
                    $this->maxInFlight = $welcome['max_inflight'] ?? 1024;
                    $this->maxFrame = $welcome['max_frame'] ?? Frame::MAX;
                    break;
                case Type::PING:
                    $this->out .= Frame::of(Type::PONG, id: $frame->id)->encode();
                    break;
                case Type::GOAWAY:
                    $this->draining = true;
            }
        }
        if ($this->draining && array_filter($this->waiting, static fn (Pending $p): bool => $p->sent) === []) {
            $this->onConnectionLost('Stoker is draining', $for);
        }
    }

    private function onAnswer(Frame $frame): void
    {
        $request = $this->waiting[$frame->id] ?? null;
        if ($request === null) {
            return; // The answer is late, or belongs to an earlier script on a persistent connection.
        }
        if ($frame->code === Status::UNAVAILABLE && $frame->flags & Flag::NOT_PROCESSED && $this->mayRetry($request)) {
            // The server is shutting down or starting up. Repeat the request on a new connection after a pause.
            $request->sent = false;
            $this->draining = true;

            return;
        }
        $this->failures = 0;
        $request->answer = $frame;
        unset($this->waiting[$frame->id]);
    }

    /**
     * The server rejected the connection itself: HELLO, or a request that breaks the protocol. A retry fails in the same
     * way, except if the server had no room for a new connection.
     */
    private function onRejected(Frame $frame, Pending $for): void
    {
        $isHello = $this->maxInFlight === null;
        $isTemporary = $isHello && in_array($frame->code, [Status::RESOURCE_EXHAUSTED, Status::UNAVAILABLE], true);
        $again = [];
        $pause = 0.0;
        foreach ($this->drop() as $request) {
            $rejected = StokerException::fromAnswer($frame, $request->name);
            $rejected->notProcessed = $rejected->notProcessed || $isHello;
            $pause = $rejected->retryAfter ?? 0.0;
            $isInTime = $request->deadline === null || hrtime(true) + $pause * 1e9 < $request->deadline;
            if ($isTemporary && $isInTime && $this->mayRetry($request)) {
                $request->lostAt = $request->lostAt ?: hrtime(true);
                $request->sent = false;
                $again[] = $request;
            } else {
                $request->error = $rejected;
            }
        }
        if ($again !== []) {
            $this->failures++;
            $this->servers->next();
            $this->backOff($for->deadline ?? PHP_INT_MAX, $pause);
            $this->repeat($again, $for, $frame->body);
        }
    }

    /** The connection has ended, or a time limit was exceeded. */
    private function onEnd(Pending $for): void
    {
        $alert = $this->maxInFlight === null && $this->warnings !== ''
            ? TlsFailure::ofAlert($this->connection->address, $this->warnings)
            : null;
        if ($alert === null) {
            $this->onConnectionLost($this->connection->failure ?? 'closed by Stoker, or timed out', $for);

            return;
        }
        $refused = Tls::refused($this->connection->address, $alert, true);
        $refused->notProcessed = true;
        foreach ($this->drop() as $request) {
            $request->error = $refused;
        }
    }

    /** Drops an unusable connection, repeats the requests that may be repeated on a new one, and fails the others. */
    private function onConnectionLost(string $why, Pending $for): void
    {
        $again = [];
        foreach ($this->drop() as $request) {
            $now = hrtime(true);
            $hasTime = $request->lostAt === 0 || $this->mayRetry($request); // At least one retry.
            $request->lostAt = $request->lostAt ?: $now;
            if ($request->deadline !== null && $now >= $request->deadline) {
                $request->expire("no answer before the deadline; the connection was lost ($why)");
            } elseif ($hasTime && ($request->isRepeatable || !$request->sent)) {
                $again[] = $request;
            } else {
                $request->error = self::connectionLost($request, $why);
            }
        }
        if ($again === []) {
            return;
        }
        if ($this->failures++ > 0) {
            $this->backOff($for->deadline ?? PHP_INT_MAX);
        }
        $this->repeat($again, $for, $why);
    }

    /**
     * Opens a new connection and queues requests on it.
     *
     * @param list<Pending> $again
     * @param string $why why the last connection was of no use, for error messages
     */
    private function repeat(array $again, Pending $for, string $why): void
    {
        try {
            $this->open($for->deadline);
            foreach ($again as $request) {
                $this->enqueue($request);
            }
        } catch (ConnectionRefused $e) {
            foreach ($again as $request) {
                $request->error = $request->sent ? self::connectionLost($request, "$why; {$e->getMessage()}") : $e;
            }
        }
    }

    /** Whether the request may still be retried: less than $reconnectFor has passed since its first loss. */
    private function mayRetry(Pending $request): bool
    {
        $since = $request->lostAt ?: hrtime(true);

        return hrtime(true) - $since < $this->reconnectFor * 1e9;
    }

    /**
     * Waits before the next attempt to connect.
     *
     * @param int   $until nanoseconds of hrtime()
     * @param float $min seconds, if the server has set a minimum
     */
    private function backOff(int $until, float $min = 0.0): void
    {
        $seconds = max($min, Backoff::seconds($this->failures));
        usleep((int) max(0, min($seconds * 1e6, ($until - hrtime(true)) / 1e3)));
    }

    private static function connectionLost(Pending $request, string $why): ConnectionLost
    {
        $known = $request->sent ? 'the request may or may not have been carried out' : 'the request was not sent';
        $e = new ConnectionLost("{$request->name}: the connection to Stoker was lost ($why); $known");
        $e->notProcessed = !$request->sent;

        return $e;
    }

    /**
     * Closes the connection and resets all state that belongs to it.
     *
     * @return array<int, Pending> the requests without an answer, by id
     */
    private function drop(): array
    {
        $orphans = $this->waiting;
        $this->waiting = $this->ends = [];
        $this->out = '';
        $this->maxInFlight = null;
        $this->warnings = '';
        $this->draining = $this->isStepping = false;
        $this->connection?->close();
        $this->connection = null;

        return $orphans;
    }

    /**
     * Called when the script ends or the client is destroyed. Closes the connection, unless it is persistent and
     * nothing is queued, in flight or partly read on it.
     */
    private function leave(): void
    {
        $isIdle = $this->waiting === [] && $this->out === '' && !$this->isStepping && !$this->draining;
        if ($isIdle && $this->connection?->isPersistent && $this->connection->isClean()) {
            $this->connection = null; // PHP keeps the stream for the next script.
        } else {
            $this->close();
        }
    }
}
