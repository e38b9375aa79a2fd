<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Cancelled;
use Stoker\ConnectionLost;
use Stoker\Task;
use Stoker\TaskTimeout;
use Stoker\Wire\Codec;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

use function hrtime;
use function is_string;
use function min;
use function strlen;
use function substr;

/**
 * The answer to a call, sent in parts while its handler runs: docs/reference/protocol.md, section 12. If the caller does not
 * accept that, the parts are collected.
 *
 * @internal
 */
final class Parts
{
    /** Maximum size of one part, in bytes. */
    private const MAX_PART = 65536;
    /** Minimum time between two looks for a CANCEL while there is credit, in nanoseconds. */
    private const POLL_NS = 5_000_000;
    /** Maximum time of one wait for credit, in seconds. */
    private const WAIT_LIMIT = 1.0;

    /** The first part has been sent, so the answer ends with DATA. */
    public bool $hasBegun = false;
    /** The handler knows from an exception that the caller has gone. */
    public bool $isCancelled = false;
    /** hrtime() of the last look for a CANCEL. */
    private int $polledAt = 0;
    /** The answer to a caller that does not accept parts. */
    private string $collected = '';
    /** @var array<string, string|list<string>> */
    private array $trailers = [];

    /** @param ?int $credit bytes that may be sent now; null: the caller does not accept an answer in parts */
    public function __construct(private Loop $loop, private Task $task, private ?int $credit)
    {
    }

    /** Sends the first part. Returns false if the caller does not accept parts, or fewer bytes than these. */
    public function begin(int $codec, string $bytes): bool
    {
        if ($this->credit === null || strlen($bytes) > min($this->credit, self::MAX_PART)) {
            return false;
        }
        $this->send($bytes, $codec);

        return true;
    }

    /**
     * Sends bytes at once, or as soon as the caller has read enough of those that were sent before.
     *
     * @throws Cancelled      the caller is no longer waiting
     * @throws ConnectionLost
     * @throws TaskTimeout    a soft cancel
     */
    public function write(string $bytes): void
    {
        if ($this->credit === null) {
            $this->collected .= $bytes;

            return;
        }
        $this->poll();
        for ($at = 0, $end = strlen($bytes); $at < $end; $at += $size) {
            while ($this->credit === 0) {
                $this->receive(self::WAIT_LIMIT);
            }
            $size = min($end - $at, $this->credit, self::MAX_PART);
            $this->send($size === $end ? $bytes : substr($bytes, $at, $size), Codec::RAW);
        }
    }

    public function grant(int $bytes): void
    {
        $this->credit += $bytes;
    }

    /** @param array<string, string|list<string>> $trailers values by valid names */
    public function setTrailers(array $trailers): void
    {
        $this->trailers = $trailers;
    }

    /**
     * Adds what the handler returned, a string or null, to the answer.
     *
     * @return array{mixed, ?\Throwable} the body of the last part, or if none has been sent, of the answer; the exception
     *                                   that the handler threw, or the reason why the answer cannot be completed
     */
    public function finish(mixed $body, ?\Throwable $thrown): array
    {
        if (!$this->hasBegun && $this->collected === '') {
            return [$body, $thrown];
        }
        if ($thrown === null && $body !== null && !is_string($body)) {
            $thrown = new \UnexpectedValueException("{$this->task->name}: the handler called Task::write() and returned "
                . get_debug_type($body) . ': expected a string, or null');
        }
        if ($thrown !== null) {
            return ['', $thrown];
        }
        $body = $this->collected . $body;
        if (!$this->hasBegun || strlen($body) <= min($this->credit, self::MAX_PART)) {
            return [$body, null];
        }
        try {
            $this->write($body);
        } catch (\Throwable $thrown) {
        }

        return ['', $thrown];
    }

    /** Encodes the last part. */
    public function last(int $status, int $micros, string $meta, string $body): string
    {
        if ($this->loop->cancelReceived) {
            [$status, $meta, $body] = [Status::CANCELLED, '', 'the caller is no longer waiting'];
        } elseif ($status === Status::RETURNED) { // Not possible, because the caller has read a part of the answer.
            $status = Status::APPLICATION;
        } elseif ($status === Status::OK && $this->trailers !== []) {
            $meta = Meta::encode([Key::TRAILERS => $this->trailerLines()]);
        }

        return Frame::of(Type::DATA, code: $status, id: $this->task->id, ttl: $micros, meta: $meta, body: $body)->encode();
    }

    private function trailerLines(): string
    {
        $lines = '';
        foreach ($this->trailers as $name => $values) {
            foreach ((array) $values as $value) {
                $lines .= "$name: $value\r\n";
            }
        }

        return $lines;
    }

    /** @param int $codec codec of the whole answer, for the first part */
    private function send(string $bytes, int $codec): void
    {
        $channel = $this->loop->channel;
        $channel->isMine() || throw new \LogicException("{$this->task->name}: only the worker's own process can write the answer");
        [$type, $codec] = $this->hasBegun ? [Type::DATA, 0] : [Type::RES, $codec];
        $frame = Frame::of($type, Flag::MORE, prio: $codec, id: $this->task->id, body: $bytes)->encode();
        $channel->writing = true; // A soft cancel must not come between the frame and its record.
        $channel->write($frame);
        $this->hasBegun = true;
        $this->credit -= strlen($bytes);
        $channel->writing = false;
        if ($channel->broken) {
            throw $this->lost();
        }
        $channel->throwInterrupt();
    }

    /** Looks for a CANCEL, unless that was done a moment ago. */
    private function poll(): void
    {
        $now = hrtime(true);
        if ($now - $this->polledAt >= self::POLL_NS) {
            $this->polledAt = $now;
            $this->receive(0.0);
        } elseif ($this->loop->cancelReceived) {
            $this->cancel();
        }
    }

    /** Waits at most $seconds for frames, and processes them. */
    private function receive(float $seconds): void
    {
        if (!$this->loop->link->receive($seconds)) {
            throw $this->lost();
        }
        if ($this->loop->cancelReceived) {
            $this->cancel();
        }
    }

    private function cancel(): never
    {
        $this->isCancelled = true;
        $this->task->cancelled();
        throw new Cancelled("{$this->task->name}: the caller does not wait for the rest of the answer");
    }

    private function lost(): ConnectionLost
    {
        return new ConnectionLost("{$this->task->name}: the connection to Stoker was lost before the answer was complete");
    }
}
