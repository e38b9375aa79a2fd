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
    /** Number of the task on this worker's connection, 1 to 4294967295; used again later. For a job's id see jobId(). */
    public readonly int $id;

    /** "service.method" of a call, or the queue of a job. */
    public readonly string $name;

    /** Earlier runs of this task that its own code ended: 0 on the first, at most 255. See attempts(), crashes(). */
    public readonly int $attempt;

    /** 0 (first) to 7 (last); 3 is usual. */
    public readonly int $priority;

    /** @internal what the handler decided by release(), fail() or returned() */
    public ?Verdict $verdict = null;
    /** Bytes that a checkpoint may have. */
    private const CHECKPOINT = 32768;
    private bool $acked = false;
    private ?string $saved = null;

    /** @var array<int, string>|null */
    private ?array $meta = null;

    /**
     * @internal
     * @param int $arrived nanoseconds of hrtime() at which the task was read
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

    /** The task that runs now in this process, or null outside of handlers. */
    public static function current(): ?self
    {
        return Loop::$active?->task;
    }

    /** The body as it was sent. */
    public function body(): string
    {
        return $this->frame->body;
    }

    /**
     * The body read as JSON, objects as arrays; null for an empty body.
     *
     * @throws \JsonException it is no JSON
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

    /** The number of this run, from 1, crashes not counted. */
    public function attempts(): int
    {
        return $this->attempt + 1;
    }

    /** Runs allowed, the first included; 0 = no limit, null = the broker did not say. */
    public function tries(): ?int
    {
        return Meta::int($this->meta(Key::TRIES));
    }

    /** Workers that died on this task before, 0 to 255. */
    public function crashes(): int
    {
        return Meta::int($this->meta(Key::CRASHES)) ?? 0;
    }

    /**
     * Seconds until the caller gives up, or the run is ended; negative when that is past, null without a limit.
     *
     * Nested calls of Client inherit it by themselves.
     */
    public function remaining(): ?float
    {
        $ms = $this->frame->ttl ?: Meta::int($this->meta(Key::TIMEOUT));

        return $ms === null ? null : $ms / 1e3 - (hrtime(true) - $this->arrived) / 1e9;
    }

    /** The fairness key (tenant) under which it was sent, or null. */
    public function key(): ?string
    {
        return $this->meta(Key::FAIRNESS);
    }

    /** The W3C trace context that came with it, or null. Nested calls pass it on by themselves. */
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

    /** A copy of real traffic, whose answer nobody sees: compute, but do not mail, charge or write. */
    public function isShadow(): bool
    {
        return (bool) ($this->frame->flags & Flag::SHADOW);
    }

    /**
     * One entry of the metadata, as bytes; null when it is not there.
     *
     * @param int $key a constant of Wire\Key, or your own: 0x80 to 0xFE
     */
    public function meta(int $key): ?string
    {
        $this->meta ??= Meta::decode($this->frame->meta);

        return $this->meta[$key] ?? null;
    }

    /**
     * Jobs: run it again later, whatever the handler returns. Counts as an attempt.
     *
     * @param float|null $delay seconds, 0 to 4294967; null = the queue's backoff
     * @param string     $why   stands in the job's history
     * @throws \LogicException this is a call: its caller waits for an answer, not for another run; or ack() was called
     */
    public function release(?float $delay = null, string $why = ''): void
    {
        $this->decide(new Retry($delay, $why));
    }

    /**
     * Jobs: give it up for good, whatever the handler returns.
     *
     * @param string|\Throwable $why stands in the job's history
     * @throws \LogicException this is a call: throw an exception instead
     */
    public function fail(string|\Throwable $why): void
    {
        $this->decide($why instanceof \Throwable ? new Fail('', $why) : new Fail($why));
    }

    /**
     * Nothing has been done, give the task to another worker; it costs the task no attempt.
     *
     * This worker then leaves run(), as after Worker::stop(): so it is for the worker that can't work, because it has
     * lost its database, say; not for the job that can't be done now. That is release().
     */
    public function returned(): void
    {
        $this->verdict = new Returned();
    }

    /**
     * Jobs: from here on it counts as done, and never runs again, whatever becomes of this run. Returns when the
     * broker has that safe (on disk, if the queue is durable): one round trip.
     *
     * Call it right before what must not happen twice, such as a payment: a worker that dies after it loses what was
     * left to do, instead of doing it again. What the handler returns later is not kept, what it throws only noted,
     * and release() is refused. A second call does nothing.
     *
     * @throws \LogicException this is a call, or runs no more
     * @throws ConnectionLost  whether it is acknowledged nobody knows: do nothing that must not happen twice
     */
    public function ack(): void
    {
        $this->mustBeJob('acknowledged');
        if (!$this->acked) {
            $this->ofLoop()->acknowledge($this);
            $this->acked = true;
        }
    }

    /** Whether ack() has been called and was safe. */
    public function isAcked(): bool
    {
        return $this->acked;
    }

    /**
     * Jobs: saves where it is, for the run after this one, if there is one: after a retry, a crash or a timeout. It
     * replaces what was saved before, and goes out at once, in order with ack() and the answer; nothing is waited for.
     *
     * @param string $bytes at most 32768; "" is nothing
     * @throws \InvalidArgumentException there are more
     * @throws \LogicException           this is a call
     */
    public function checkpoint(string $bytes): void
    {
        $this->mustBeJob('saved');
        if (strlen($bytes) > self::CHECKPOINT) {
            throw new \InvalidArgumentException(sprintf('a checkpoint of %d bytes; %d is the most', strlen($bytes), self::CHECKPOINT));
        }
        $this->ofLoop()->channel->event(Kind::CHECKPOINT, $this->id, $bytes);
        $this->saved = $bytes;
    }

    /** What checkpoint() saved last, in this run or an earlier one; null when nothing was. */
    public function checkpointed(): ?string
    {
        $saved = $this->saved ?? $this->meta(Key::CHECKPOINT);

        return $saved === '' ? null : $saved;
    }

    /**
     * Waits, in a task that can't begin yet, and hears meanwhile when this worker is to go. Then returned() is right.
     *
     * @param float $seconds to wait
     * @return bool false as soon as Stoker said to go, or is gone
     */
    public function rest(float $seconds): bool
    {
        return $this->ofLoop()->rest($seconds);
    }

    /**
     * Tells how far it is. Shown by `stoker jobs show` and Client::job().
     *
     * @param int|float $percent 0 to 100; what is beyond counts as the nearest of these
     * @param string    $text    what is going on, for people; its first line is shown
     */
    public function progress(int|float $percent, string $text = ''): void
    {
        $percent = is_nan($percent) ? 0 : max(0, min(100, $percent));
        $this->tell(Kind::PROGRESS, ['percent' => $percent, 'text' => $text]);
    }

    /** Writes to the task's log, beside what it prints. A line end is added where there is none. */
    public function log(string $line): void
    {
        Loop::$active->output->flush();
        foreach (str_split(str_ends_with($line, "\n") ? $line : "$line\n", 65536) as $chunk) {
            Loop::$active->channel->event(Kind::LOG, $this->id, $chunk, Kind::STDERR);
        }
    }

    /**
     * A number for the broker's metrics.
     *
     * @param array<string, string> $labels a few, of few values each
     */
    public function metric(string $name, float $value, array $labels = []): void
    {
        $this->tell(Kind::METRIC, ['name' => $name, 'value' => $value, 'labels' => (object) $labels]);
    }

    private function tell(int $kind, array $body): void
    {
        Loop::$active->channel->event($kind, $this->id, json_encode($body, JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR));
    }

    private function decide(Verdict $verdict): void
    {
        if (!$this->isJob) {
            throw new \LogicException("{$this->name} is a call, not a job: return an answer or throw");
        }
        if ($this->acked && $verdict instanceof Retry) {
            throw new \LogicException("{$this->name}: acknowledged with ack(), so it can't run again");
        }
        $caller = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 2)[1];
        $this->verdict = $verdict->calledFrom($caller['file'] ?? null, $caller['line'] ?? null);
    }

    private function mustBeJob(string $what): void
    {
        if (!$this->isJob) {
            throw new \LogicException("{$this->name} is a call: only jobs are $what");
        }
    }

    private function ofLoop(): Loop
    {
        return Loop::$active ?? throw new \LogicException("{$this->name} runs no more");
    }
}
