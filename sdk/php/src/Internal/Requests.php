<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\DeadlineExceeded;
use Stoker\InvalidRequest;
use Stoker\Pending;
use Stoker\Task;
use Stoker\Wire\Codec;
use Stoker\Wire\Flag;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\WireError;

/** Makes requests of what users pass to Client: checks it, and adds what a running task hands down. @internal */
final class Requests
{
    private const USUAL_PRIORITY = 3;

    public function __construct(private Link $link, private ?float $timeout)
    {
    }

    /**
     * When a call made now must have its answer, in nanoseconds of hrtime(): by its own timeout, and never after the
     * task that waits for it.
     *
     * @throws InvalidRequest
     * @throws DeadlineExceeded the task that asks has no time left
     */
    public function deadline(string $name, ?float $timeout): ?int
    {
        $timeout ??= $this->timeout;
        if ($timeout !== null) {
            Limits::ms('timeout', $timeout, 1);
        }
        $left = Task::current()?->remaining();
        if ($left !== null && $left <= 0) {
            $e = new DeadlineExceeded("$name: the task that asks has no time left");
            $e->status = Status::DEADLINE_EXCEEDED;
            $e->notProcessed = true;
            throw $e;
        }
        $timeout = $left === null ? $timeout : min($timeout ?? $left, $left);

        return $timeout === null ? null : hrtime(true) + (int) ($timeout * 1e9);
    }

    /**
     * @param array<int, string> $meta
     * @throws InvalidRequest
     */
    public function call(string $name, mixed $body, ?int $deadline, ?int $priority, int $flags, ?string $key, array $meta): Pending
    {
        $task = Task::current();
        if ($task !== null) {
            // Of what nobody waits for, nobody is the parent: it may go on when the task has ended.
            $meta += ($flags & Flag::ONEWAY ? [] : [Key::PARENT => Meta::u32($task->id)]) + self::trace($task);
        }
        if ($key !== null) {
            $meta[Key::FAIRNESS] = Limits::key('key', $key);
        }

        return $this->make($name, $body, $deadline, $priority ?? $task?->priority, $flags, $meta);
    }

    /**
     * @param list<float> $backoff seconds
     * @throws InvalidRequest
     */
    public function push(
        string $queue,
        mixed $body,
        float|\DateTimeInterface|null $delay,
        ?int $priority,
        ?string $key,
        ?int $tries,
        array $backoff,
        ?float $timeout,
        ?string $unique = null,
        ?string $idempotencyKey = null,
    ): Pending {
        $meta = [Key::QUEUE => Limits::name($queue)];
        if ($delay instanceof \DateTimeInterface) {
            $meta[Key::DUE_AT] = pack('J', max(0, (int) $delay->format('Uv')));
        } elseif ($delay !== null) {
            $meta[Key::DELAY] = pack('J', Limits::ms('delay', $delay, 0, PHP_INT_MAX));
        }
        if ($tries !== null) {
            $meta[Key::TRIES] = pack('n', Limits::int('tries', $tries, 0, 0xFFFF));
        }
        if ($backoff !== []) {
            Limits::int('the number of backoff steps', count($backoff), 1, 100);
            $meta[Key::BACKOFF] = pack('N*', ...array_map(fn ($s) => Limits::ms('backoff', (float) $s), array_values($backoff)));
        }
        if ($timeout !== null) {
            $meta[Key::TIMEOUT] = pack('N', Limits::ms('timeout', $timeout, 1));
        }
        if ($key !== null) {
            $meta[Key::FAIRNESS] = Limits::key('key', $key);
        }
        if ($unique !== null) {
            $meta[Key::UNIQUE] = Limits::key('unique', $unique);
        }
        if ($idempotencyKey !== null) {
            $meta[Key::IDEMPOTENCY] = Limits::key('idempotencyKey', $idempotencyKey);
        }
        // A job outlives the task that pushes it: of that it takes the trace, not the deadline, the priority or the id.
        $task = Task::current();
        $meta += $task === null ? [] : self::trace($task);

        $deadline = $this->timeout === null ? null : hrtime(true) + (int) ($this->timeout * 1e9);
        // With the key the broker knows a repeat when it sees one.
        $flags = $idempotencyKey !== null ? Flag::IDEMPOTENT : 0;

        return $this->make('stoker.push', $body, $deadline, $priority, $flags, $meta);
    }

    private function make(string $name, mixed $body, ?int $deadline, ?int $priority, int $flags, array $meta): Pending
    {
        Limits::name($name);
        $priority = Limits::int('priority', $priority ?? self::USUAL_PRIORITY, 0, 7);
        try {
            [$codec, $bytes] = $body === null ? [Codec::RAW, ''] : Codec::encode($body);
            $meta = Meta::encode($meta);
        } catch (\JsonException|WireError $e) {
            throw new InvalidRequest("$name: {$e->getMessage()}", 0, $e);
        }

        return new Pending($this->link, $name, $codec, $bytes, $flags, $priority, $meta, $deadline, (bool) ($flags & Flag::IDEMPOTENT));
    }

    /** @return array<int, string> */
    private static function trace(Task $task): array
    {
        return array_filter([
            Key::TRACEPARENT => $task->traceparent(),
            Key::TRACESTATE => $task->meta(Key::TRACESTATE),
            Key::BAGGAGE => $task->meta(Key::BAGGAGE),
        ], 'is_string');
    }
}
