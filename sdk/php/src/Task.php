<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Loop;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Kind;
use Stoker\Wire\Meta;

/** One call or job, as its handler sees it. */
final class Task
{
    /** Id of the task on this worker's connection, 1 to 4294967295; ids are reused. For a job's id see jobId(). */
    public readonly int $id;

    /** "service.method" of a call, or the queue of a job. */
    public readonly string $name;

    /** Number of earlier attempts: 0 in the first run, at most 255. See attempts(), crashes(). */
    public readonly int $attempt;

    /** Priority, 0 (first) to 7 (last); the default is 3. */
    public readonly int $priority;

    /** @internal set by release(), fail() and returned() */
    public ?Verdict $verdict = null;
    /** Maximum size of a checkpoint, in bytes. */
    private const MAX_CHECKPOINT = 32768;
    private bool $acked = false;
    private ?string $saved = null;
    /** @var list<callable(): mixed> */
    private array $onCancel = [];

    /** @var array<int, string>|null */
    private ?array $meta = null;

    /**
     * @internal
     * @param int $arrived hrtime() in nanoseconds at which the task was read from the socket
     */
    public function __construct(
        private readonly Frame $frame,
        public readonly bool $isJob,
        private readonly int $arrived,
    ) {
        $this->id = $frame->id;
        $this->name = $frame->name;
        $this->attempt = $frame->attempt;
        $this->priority = $frame->prio & 7;
    }

    /** The task that this process runs now, or null outside of handlers. */
    public static function current(): ?self
    {
        return Loop::$active?->task;
    }

    /** The payload, as the bytes that were sent. */
    public function body(): string
    {
        return $this->frame->body;
    }

    /**
     * The payload decoded as JSON, with objects as arrays; null if it is empty.
     *
     * @throws \JsonException the payload is not valid JSON
     */
    public function json(): mixed
    {
        return $this->frame->body === '' ? null : json_decode($this->frame->body, true, 512, JSON_THROW_ON_ERROR);
    }

    /** The id that push() returned, a UUIDv7 as text; null for a call. */
    public function jobId(): ?string
    {
        $id = $this->meta(Key::JOB_ID);

        return $id === null ? null : Meta::uuid($id);
    }

    /** The number of this attempt, from 1. Crashes are not attempts. */
    public function attempts(): int
    {
        return $this->attempt + 1;
    }

    /** The maximum number of attempts, including the first; 0 = no limit, null = unknown. */
    public function tries(): ?int
    {
        return Meta::int($this->meta(Key::TRIES));
    }

    /** The number of workers that have died while they ran this task, 0 to 255. */
    public function crashes(): int
    {
        return Meta::int($this->meta(Key::CRASHES)) ?? 0;
    }

    /**
     * Seconds until the caller's deadline or the end of the time that this run may take; negative if it has passed, null
     * if there is no limit.
     *
     * Calls that the handler makes with Client inherit this limit.
     */
    public function remaining(): ?float
    {
        $ms = $this->frame->ttl ?: Meta::int($this->meta(Key::TIMEOUT));

        return $ms === null ? null : $ms / 1e3 - (hrtime(true) - $this->arrived) / 1e9;
    }

    /** The fairness key (tenant) of the call or job, or null. */
    public function key(): ?string
    {
        return $this->meta(Key::FAIRNESS);
    }

    /** The W3C traceparent of the call or job, or null. Calls and pushes of the handler inherit it. */
    public function traceparent(): ?string
    {
        return $this->meta(Key::TRACEPARENT);
    }

    /** Unix time in seconds at which the job was pushed; null for a call. */
    public function createdAt(): ?float
    {
        $ms = Meta::int($this->meta(Key::CREATED_AT));

        return $ms === null ? null : $ms / 1e3;
    }

    /** Whether this is a copy of real traffic, whose answer is dropped: the handler must have no side effects. */
    public function isShadow(): bool
    {
        return (bool) ($this->frame->flags & Flag::SHADOW);
    }

    /**
     * The value of one metadata entry, as bytes; null if there is none.
     *
     * @param int $key a constant of Wire\Key, or a key of your own, 0x80 to 0xFE
     */
    public function meta(int $key): ?string
    {
        $this->meta ??= Meta::decode($this->frame->meta);

        return $this->meta[$key] ?? null;
    }

    /**
     * Jobs only: runs the job again later, regardless of what the handler returns. This run counts as an attempt.
     *
     * @param float|null $delay seconds until the next run, 0 to 4294967; null = the queue's backoff
     * @param string     $why   reason, recorded in the job's history
     * @throws \LogicException this is a call, or the job was acknowledged with ack()
     */
    public function release(?float $delay = null, string $why = ''): void
    {
        $this->decide(new Retry($delay, $why));
    }

    /**
     * Jobs only: fails the job permanently, regardless of what the handler returns.
     *
     * @param string|\Throwable $why reason, recorded in the job's history
     * @throws \LogicException this is a call; in a call, throw an exception
     */
    public function fail(string|\Throwable $why): void
    {
        $this->decide($why instanceof \Throwable ? new Fail('', $why) : new Fail($why));
    }

    /**
     * Returns the task, of which nothing has been done, so that another worker runs it. This does not count as an attempt.
     *
     * Worker::run() returns after the handler, as after Worker::stop(). Use this method if this worker cannot work, for
     * example because it has lost its database. If only the job cannot be done now, use release().
     */
    public function returned(): void
    {
        $this->verdict = new Returned();
    }

    /**
     * Jobs only: marks the job as done now, so that it never runs again, whatever happens to this run. Returns when the
     * server has recorded this (on disk, if the queue is durable), after one round trip.
     *
     * Call it right before an action that must not happen twice, such as a payment: if the worker dies afterwards, the
     * rest of the work is lost instead of repeated. The handler's return value is not kept as the job's result, an
     * exception is only recorded in the job's history, and release() throws. A second call does nothing.
     *
     * @throws \LogicException this is a call, or the task is no longer running
     * @throws ConnectionLost  it is unknown whether the job was acknowledged; skip the action that must not happen twice
     */
    public function ack(): void
    {
        $this->assertIsJob('acknowledged');
        if (!$this->acked) {
            $this->loop()->link->acknowledge($this);
            $this->acked = true;
        }
    }

    /** Whether ack() was called and the server has confirmed it. */
    public function isAcked(): bool
    {
        return $this->acked;
    }

    /**
     * Jobs only: saves a checkpoint for the next run, if a retry, a crash or a timeout leads to one. It replaces the
     * previous checkpoint. It is sent at once, in order with ack() and the answer, and no confirmation is awaited.
     *
     * @param string $bytes at most 32768 bytes; "" removes the checkpoint
     * @throws \InvalidArgumentException $bytes is longer
     * @throws \LogicException           this is a call, or the task is no longer running
     */
    public function checkpoint(string $bytes): void
    {
        $this->assertIsJob('checkpointed');
        if (strlen($bytes) > self::MAX_CHECKPOINT) {
            throw new \InvalidArgumentException(sprintf('the checkpoint has %d bytes, the maximum is %d', strlen($bytes), self::MAX_CHECKPOINT));
        }
        $this->loop()->channel->event(Kind::CHECKPOINT, $this->id, $bytes);
        $this->saved = $bytes;
    }

    /** The last checkpoint of this run or an earlier one; null if there is none. */
    public function checkpointed(): ?string
    {
        $saved = $this->saved ?? $this->meta(Key::CHECKPOINT);

        return $saved === '' ? null : $saved;
    }

    /**
     * Calls only: sends the next bytes of the answer. The caller gets them at once if it accepts an answer in parts;
     * otherwise they are collected. While the caller does not read what was sent before, this waits.
     *
     * The string that the handler returns is the end of the answer; null adds nothing. If it throws, the caller gets the
     * exception after the bytes that were sent.
     *
     * @throws Cancelled       the caller does not wait for the answer any more
     * @throws ConnectionLost  the connection has ended
     * @throws \LogicException this is a job, or the task is no longer running
     */
    public function write(string $bytes): void
    {
        if ($this->isJob) {
            throw new \LogicException("{$this->name} is a queue: only the answer to a call can be written in parts");
        }
        $this->loop()->link->parts($this)->write($bytes);
    }

    /**
     * Calls a function, once, when this worker learns that the caller does not wait for the answer any more or that the
     * task's time is up: before Cancelled or TaskTimeout is thrown. If it has learned that already, calls it now.
     *
     * @param callable(): mixed $do
     */
    public function onCancel(callable $do): void
    {
        $this->onCancel[] = $do;
        if (Loop::$active?->task === $this && Loop::$active->cancelReceived) {
            $this->cancelled();
        }
    }

    /** @internal calls the functions that onCancel() has got */
    public function cancelled(): void
    {
        while (($do = array_shift($this->onCancel)) !== null) {
            $do();
        }
    }

    /**
     * Waits, and stops waiting when Stoker shuts this worker down. A task that cannot start its work yet calls returned()
     * in that case; one that answers in parts, for example with server-sent events, ends its answer.
     *
     * @param float $seconds time to wait
     * @return bool false, possibly early, if Stoker asked this worker to exit, the connection has ended, or Stoker has
     *              given the task up because the connection was lost for too long, or the caller of an answer in parts has
     *              gone
     * @throws \LogicException the task is no longer running
     */
    public function rest(float $seconds): bool
    {
        return $this->loop()->link->sleep($seconds);
    }

    /**
     * Reports the progress of the task. `stoker jobs show` and Client::job() show it.
     *
     * @param int|float $percent 0 to 100; values outside are clamped
     * @param string    $text    description of the current step; only its first line is shown
     */
    public function progress(int|float $percent, string $text = ''): void
    {
        $percent = is_nan($percent) ? 0 : max(0, min(100, $percent));
        $this->sendEvent(Kind::PROGRESS, ['percent' => $percent, 'text' => $text]);
    }

    /** Writes a line to the task's log, as stderr output. A newline is added if it is missing. */
    public function log(string $line): void
    {
        Loop::$active->output->flush();
        foreach (str_split(str_ends_with($line, "\n") ? $line : "$line\n", 65536) as $chunk) {
            Loop::$active->channel->event(Kind::LOG, $this->id, $chunk, Kind::STDERR);
        }
    }

    /**
     * Reports a value to the server's metrics.
     *
     * @param string                $name   name of the metric
     * @param array<string, string> $labels a few labels with few different values each
     */
    public function metric(string $name, float $value, array $labels = []): void
    {
        $this->sendEvent(Kind::METRIC, ['name' => $name, 'value' => $value, 'labels' => (object) $labels]);
    }

    private function sendEvent(int $kind, array $body): void
    {
        Loop::$active->channel->event($kind, $this->id, json_encode($body, JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR));
    }

    private function decide(Verdict $verdict): void
    {
        if (!$this->isJob) {
            throw new \LogicException("{$this->name} is a call, not a job: return an answer or throw an exception");
        }
        if ($this->acked && $verdict instanceof Retry) {
            throw new \LogicException("{$this->name}: the job was acknowledged with ack() and cannot be released");
        }
        $caller = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 2)[1];
        $this->verdict = $verdict->calledFrom($caller['file'] ?? null, $caller['line'] ?? null);
    }

    private function assertIsJob(string $what): void
    {
        if (!$this->isJob) {
            throw new \LogicException("{$this->name} is a call; only jobs can be $what");
        }
    }

    private function loop(): Loop
    {
        return Loop::$active ?? throw new \LogicException("{$this->name} is no longer running");
    }
}
