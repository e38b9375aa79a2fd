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

/** Builds requests from the arguments of Client: checks them, and adds what the running task passes on. @internal */
final class Requests
{
    private const DEFAULT_PRIORITY = 3;

    public function __construct(private Link $link, private ?float $timeout)
    {
    }

    /**
     * The deadline of a call that is made now, in nanoseconds of hrtime(): the end of its own timeout or of the
     * running task's time, whichever is earlier. Null = no deadline.
     *
     * @throws InvalidRequest   the timeout is out of range
     * @throws DeadlineExceeded the running task has no time left
     */
    public function deadline(string $name, ?float $timeout): ?int
    {
        $timeout ??= $this->timeout;
        if ($timeout !== null) {
            Limits::ms('timeout', $timeout, 1);
        }
        $left = Task::current()?->remaining();
        if ($left !== null && $left <= 0) {
            $e = new DeadlineExceeded("$name: the running task has no time left for this call");
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
            // A one-way call has no parent task, because it may continue after the task has ended.
            $meta += ($flags & Flag::ONEWAY ? [] : [Key::PARENT => Meta::u32($task->id)]) + self::trace($task);
        }
        if ($key !== null) {
            $meta[Key::FAIRNESS] = Limits::key('key', $key);
        }

        return $this->make($name, $body, $deadline, $priority ?? $task?->priority, $flags, $meta);
    }

    /**
     * @param array<string, mixed> $options the parameters of Client::push() by their names
     * @throws InvalidRequest
     */
    public function push(string $queue, mixed $body, array $options): Pending
    {
        $meta = [Key::QUEUE => Limits::name($queue)] + self::options($options);
        // A job outlives the task that pushes it, so it inherits the task's trace and owner, but not its deadline and
        // priority.
        $task = Task::current();
        $meta += $task === null ? [] : [Key::PARENT => Meta::u32($task->id)] + self::trace($task);
        $deadline = $this->timeout === null ? null : hrtime(true) + (int) ($this->timeout * 1e9);
        // With an idempotency key the server recognizes a repeated push.
        $flags = isset($options['idempotencyKey']) ? Flag::IDEMPOTENT : 0;

        return $this->make('stoker.push', $body, $deadline, $options['priority'] ?? null, $flags, $meta);
    }

    /**
     * @param array<string, mixed> $o
     * @return array<int, string>
     * @throws InvalidRequest
     */
    private static function options(array $o): array
    {
        $meta = [];
        if (isset($o['delay'], $o['dueAt'])) {
            throw new InvalidRequest('delay and dueAt are mutually exclusive');
        }
        if (($o['delay'] ?? null) instanceof \DateTimeInterface) {
            $o['dueAt'] = $o['delay'];
        } elseif (isset($o['delay'])) {
            $meta[Key::DELAY] = pack('J', Limits::ms('delay', $o['delay'], 0, PHP_INT_MAX));
        }
        if (isset($o['dueAt'])) {
            $meta[Key::DUE_AT] = pack('J', Limits::unixMs('dueAt', $o['dueAt']));
        }
        if (isset($o['tries'])) {
            $meta[Key::TRIES] = pack('n', Limits::int('tries', $o['tries'], 0, 0xFFFF));
        }
        if (($o['backoff'] ?? []) !== []) {
            Limits::int('number of backoff steps', count($o['backoff']), 1, 100);
            $meta[Key::BACKOFF] = pack('N*', ...array_map(self::backoffStep(...), array_values($o['backoff'])));
        }
        if (isset($o['timeout'])) {
            $meta[Key::TIMEOUT] = pack('N', Limits::ms('timeout', $o['timeout'], 1));
        }
        if (isset($o['maxExceptions'])) {
            $meta[Key::MAX_EXCEPTIONS] = pack('n', Limits::int('maxExceptions', $o['maxExceptions'], 1, 0xFFFF));
        }
        if ($o['failOnTimeout'] ?? false) {
            $meta[Key::FAIL_ON_TIMEOUT] = '';
        }
        if (isset($o['retryUntil'])) {
            $meta[Key::RETRY_UNTIL] = pack('J', Limits::unixMs('retryUntil', $o['retryUntil']));
        }
        if (isset($o['key'])) {
            $meta[Key::FAIRNESS] = Limits::key('key', $o['key']);
        }
        if (isset($o['unique'])) {
            $meta[Key::UNIQUE] = Limits::key('unique', $o['unique']);
        } elseif (($o['uniqueUntilStart'] ?? false) || isset($o['uniqueFor'])) {
            throw new InvalidRequest('uniqueUntilStart and uniqueFor require unique');
        }
        if ($o['uniqueUntilStart'] ?? false) {
            $meta[Key::UNIQUE_UNTIL_START] = '';
        }
        if (isset($o['uniqueFor'])) {
            $meta[Key::UNIQUE_FOR] = pack('J', Limits::ms('uniqueFor', $o['uniqueFor'], 1, PHP_INT_MAX));
        }
        if (isset($o['idempotencyKey'])) {
            $meta[Key::IDEMPOTENCY] = Limits::key('idempotencyKey', $o['idempotencyKey']);
        }
        if (isset($o['type'])) {
            $meta[Key::JOB_TYPE] = Limits::key('type', $o['type'], 255);
        }
        if (isset($o['keepResult'])) {
            $meta[Key::KEEP_RESULT] = pack('J', Limits::ms('keepResult', $o['keepResult'], 0, PHP_INT_MAX));
        }

        return $meta;
    }

    private function make(string $name, mixed $body, ?int $deadline, ?int $priority, int $flags, array $meta): Pending
    {
        Limits::name($name);
        $priority = Limits::int('priority', $priority ?? self::DEFAULT_PRIORITY, 0, 7);
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

    /** Converts one step of a backoff to milliseconds. */
    private static function backoffStep(mixed $seconds): int
    {
        is_numeric($seconds) || throw new InvalidRequest('invalid backoff ' . json_encode($seconds) . ': expected a list of numbers of seconds');

        return Limits::ms('backoff', (float) $seconds);
    }
}
