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
 * Carries a client's requests: gathers and sends them, matches the answers, and when the connection is lost opens
 * another and sends again what may be sent again.
 *
 * Everything happens inside the calls of the client; there is no background.
 *
 * @internal
 */
final class Link
{
    /** Bytes that gather before they are sent although nobody waits. */
    private const BATCH = 65536;

    /** Requests in flight until WELCOME says how many may be. */
    private const FIRST_WINDOW = 64;

    /** Nanoseconds that the broker gets to say itself that the time is up: it knows whether the task ran. */
    private const GRACE = 250_000_000;

    private ?Connection $connection = null;
    private string $out = '';
    /** @var list<array{Pending, int}> the requests in $out, each with the place where it ends there */
    private array $ends = [];
    /** @var array<int, Pending> what has no answer yet, by id */
    private array $waiting = [];
    private int $lastId;
    private ?int $window = null;
    /** The longest frame that we may write; 128 KiB less than the wire's own limit until WELCOME says it. */
    private int $maxFrame = Frame::MAX - 131072;
    /** The broker said GOAWAY: the next request takes a new connection. */
    private bool $draining = false;
    /** Inside step(). If it is found so, an exception of a signal handler has torn the step before. */
    private bool $torn = false;
    /** Connections lost or refused since the last answer. */
    private int $failures = 0;

    /**
     * @param array<string, mixed> $hello what HELLO says
     * @param float $connectTimeout seconds
     * @param float $reconnectFor   seconds for which a lost connection is tried to be opened again
     */
    public function __construct(
        private string $socket,
        private array $hello,
        private bool $persistent,
        private float $connectTimeout,
        private float $reconnectFor,
    ) {
        // Answers to what an earlier script has asked on a persistent connection must match nothing.
        $this->lastId = random_int(1, 0xFFFFFFFF);
        if ($persistent) {
            register_shutdown_function($this->leave(...));
        }
    }

    public function __destruct()
    {
        $this->leave();
    }

    /**
     * Opens the connection if there is none that can be used.
     *
     * @param ?int $until nanoseconds of hrtime()
     * @throws ConnectionRefused
     */
    public function open(?int $until): void
    {
        if ($this->connection !== null && !$this->connection->isMine()) {
            $this->close(); // A forked child: the connection, and the answers on it, are its parent's.
        }
        $giveUp = hrtime(true) + (int) ($this->reconnectFor * 1e9);
        $giveUp = min($giveUp, $until ?? $giveUp);
        while ($this->connection === null) {
            try {
                $this->connection = new Connection(Socket::dial($this->socket, $this->connectTimeout, $this->persistent));
                if ($this->connection->isUsed()) {
                    $this->window = self::FIRST_WINDOW; // Its WELCOME was read by another.
                } else {
                    $hello = json_encode($this->hello + ['pid' => getmypid()], JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE);
                    $this->out = Frame::of(Type::HELLO, body: $hello)->encode();
                }
            } catch (ConnectionRefused $e) {
                $this->failures++;
                if (hrtime(true) >= $giveUp) {
                    $e->notProcessed = true;
                    throw $e;
                }
                $this->backOff($giveUp);
            }
        }
    }

    /** Takes a request. It is sent when enough have gathered, or when somebody waits. */
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
        if (strlen($this->out) >= self::BATCH) {
            $this->step($request, false);
        }
    }

    public function await(Pending $request): void
    {
        while (!$request->isDone()) {
            isset($this->waiting[$request->id])
                ? $this->step($request)
                : $request->error = self::connectionLost($request, 'interrupted');
        }
    }

    /** Ends the connection; what has no answer yet gets none. */
    public function close(): void
    {
        foreach ($this->drop() as $request) {
            $request->error = self::connectionLost($request, 'closed by its client');
        }
    }

    /** Whether answers have to come before one more request may be sent, or WELCOME to say how large it may be. */
    private function mustWait(Pending $request): bool
    {
        return $this->draining
            || count($this->waiting) >= ($this->window ?? self::FIRST_WINDOW)
            || $this->window === null && $request->size() > self::BATCH;
    }

    private function enqueue(Pending $request): void
    {
        do {
            $this->lastId = $this->lastId % 0xFFFFFFFF + 1;
        } while (isset($this->waiting[$this->lastId]));
        $bytes = $request->encode($this->lastId);
        if ($bytes === null) {
            $request->timeIsUp('its time was up before it was sent');
        } elseif (strlen($bytes) - 4 > $this->maxFrame) {
            $size = strlen($bytes);
            $request->error = new InvalidRequest("{$request->name}: a request of $size bytes; {$this->maxFrame} is the most");
        } else {
            $request->id = $this->lastId;
            $request->sent = false;
            $this->waiting[$this->lastId] = $request;
            $this->out .= $bytes;
            $this->ends[] = [$request, strlen($this->out)];
        }
    }

    /** Sends what has gathered, and reads once if $for needs it. */
    private function step(Pending $for, bool $read = true): void
    {
        if ($this->torn) {
            $this->lost('an exception interrupted its use', $for);

            return;
        }
        $this->torn = true;
        $until = $for->deadline === null ? null : $for->deadline + self::GRACE;
        // An application's error handler may throw even at warnings that are silenced.
        set_error_handler(static fn (): bool => true);
        try {
            $alive = $this->flush($until);
            $this->take($for);
            if ($alive && $read && !$for->isDone() && $this->connection !== null) {
                $alive = $this->connection->read($until);
                $this->take($for);
            }
            if ($until !== null && !$for->isDone() && hrtime(true) >= $until) {
                // Who is silent for so long is not to be trusted with the rest either.
                $for->timeIsUp('no answer in time, not even from Stoker itself');
                unset($this->waiting[$for->id]);
                $alive = false;
            }
            if (!$alive && $this->connection !== null) {
                $this->lost('Stoker has closed it, or is silent', $for);
            }
        } catch (WireError $e) {
            $this->lost($e->getMessage(), $for);
        } finally {
            restore_error_handler();
        }
        $this->torn = false;
    }

    /** Writes all that has gathered; false when not all of it could be. */
    private function flush(?int $until): bool
    {
        if ($this->out === '') {
            return true;
        }
        foreach ($this->ends as [$request]) {
            $request->sent = true; // In doubt, if an exception of a signal handler strikes from here on.
        }
        $sent = $this->connection->write($this->out, $until);
        foreach ($this->ends as [$request, $end]) {
            $request->sent = $end <= $sent;
            if ($request->sent && $request->isOneWay()) {
                $request->answer = new Frame(); // All that there will ever be.
                unset($this->waiting[$request->id]);
            }
        }
        $isAll = $sent === strlen($this->out);
        $this->out = '';
        $this->ends = [];

        return $isAll;
    }

    /** Takes what has been read. */
    private function take(Pending $for): void
    {
        foreach ($this->connection?->take() ?? [] as $frame) {
            switch ($frame->type) {
                case Type::RES:
                    $frame->id === 0 ? $this->refused($frame) : $this->answered($frame);
                    break;
                case Type::WELCOME:
                    $welcome = json_decode($frame->body, true);
                    $this->window = $welcome['max_inflight'] ?? 1024;
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
            $this->lost('Stoker is draining', $for);
        }
    }

    private function answered(Frame $frame): void
    {
        $request = $this->waiting[$frame->id] ?? null;
        if ($request === null) {
            return; // Late, or meant for an earlier user of a persistent connection.
        }
        if ($frame->code === Status::UNAVAILABLE && $frame->flags & Flag::NOT_PROCESSED && $this->isPatient($request)) {
            // The broker is going down or just coming up. On another connection, after a pause, its turn comes.
            $request->sent = false;
            $this->draining = true;

            return;
        }
        $this->failures = 0;
        $request->answer = $frame;
        unset($this->waiting[$frame->id]);
    }

    /** The broker calls the connection itself faulty. Sending the same again would not mend it. */
    private function refused(Frame $frame): void
    {
        foreach ($this->drop() as $request) {
            $request->error = StokerException::fromAnswer($frame, $request->name);
        }
    }

    /** The connection is of no use any more. What may be sent again, is; the rest fails. */
    private function lost(string $why, Pending $for): void
    {
        $again = [];
        foreach ($this->drop() as $request) {
            $now = hrtime(true);
            $hasTime = $request->lostAt === 0 || $this->isPatient($request); // Once at least.
            $request->lostAt = $request->lostAt ?: $now;
            if ($request->deadline !== null && $now >= $request->deadline) {
                $request->timeIsUp("no answer in time; the connection was lost ($why)");
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

    /** Whether a request may be tried again, by the time for which the client was told to go on. */
    private function isPatient(Pending $request): bool
    {
        $since = $request->lostAt ?: hrtime(true);

        return hrtime(true) - $since < $this->reconnectFor * 1e9;
    }

    private function backOff(int $until): void
    {
        $seconds = min(5.0, 0.1 * 2 ** min($this->failures - 1, 10));
        $seconds *= random_int(500, 1500) / 1000; // Not all clients at once.
        usleep((int) max(0, min($seconds * 1e6, ($until - hrtime(true)) / 1e3)));
    }

    private static function connectionLost(Pending $request, string $why): ConnectionLost
    {
        $known = $request->sent ? 'it may or may not have been carried out' : 'it has not been sent';
        $e = new ConnectionLost("{$request->name}: the connection to Stoker was lost ($why); $known");
        $e->notProcessed = !$request->sent;

        return $e;
    }

    /**
     * Forgets the connection.
     *
     * @return array<int, Pending> what has no answer yet
     */
    private function drop(): array
    {
        $orphans = $this->waiting;
        $this->waiting = $this->ends = [];
        $this->out = '';
        $this->window = null;
        $this->draining = $this->torn = false;
        $this->connection?->close();
        $this->connection = null;

        return $orphans;
    }

    /** The script ends, or nobody needs this client any more. A persistent connection stays open if it is clean. */
    private function leave(): void
    {
        if (!$this->persistent || $this->waiting !== [] || $this->out !== '' || $this->torn || $this->draining) {
            $this->close();
        }
    }
}
