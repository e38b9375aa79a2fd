<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Closure;
use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\CallQueuedHandler;
use Illuminate\Queue\InvalidPayloadException;
use Illuminate\Queue\Jobs\Job;
use Stoker\Fail;
use Stoker\Retry;
use Stoker\Task;
use Stoker\TaskTimeout;
use Stoker\Verdict;
use Throwable;

/**
 * One run of a job, as a job of Laravel. It records what Laravel decides, and verdict() turns that into the single
 * answer to the server, so that no code path can answer twice or not at all.
 */
final class StokerJob extends Job implements JobContract
{
    /** Prefix of a checkpoint that was saved before failed() was called. */
    private const FAILING = "\0stoker/laravel failing\n";

    /** Seconds until the next run, if the job was released. */
    private int $delay = 0;
    private ?Throwable $reason = null;
    private ?array $payload = null;
    /** What the server reports about the job; null until it has been requested. */
    private ?array $shown = null;
    private bool $hasBegun = false;
    /** The job's own checkpoint, which is replaced by a note while failed() runs. */
    private ?string $saved = null;
    /** The code of the job runs now. */
    private bool $isRunning = false;
    /** Laravel's worker runs the job, and its events trigger the answer. False if other code called pop(). */
    private bool $isManaged = false;
    /** Laravel's worker will do nothing more with the job after the next release(). */
    private bool $endsWithRelease = false;
    /** The exception that the job's code threw, from JobExceptionOccurred. */
    public ?Throwable $thrown = null;

    /**
     * @param int|null      $crashLimit number of workers that may die on the job before it fails; null = the server's
     *                                  limit
     * @param Closure       $show       returns what the server reports about a job, by its id
     * @param Closure|null  $around     called with a closure that runs the job's code
     * @param bool          $hasAlarm   whether Laravel may set an alarm for the job's timeout; if not, only the
     *                                  server enforces it
     * @param Closure|null  $answer     sends the verdict(); null if the code that created this object does that
     * @param Closure|null  $whenBegun  called before Laravel's worker runs the job
     */
    public function __construct(
        Container $container,
        private Task $task,
        string $connectionName,
        private ?int $crashLimit,
        private Closure $show,
        private ?Closure $around = null,
        private bool $hasAlarm = true,
        private ?Closure $answer = null,
        private ?Closure $whenBegun = null,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $task->name;
    }

    /** The SDK's object for this run, with progress(), checkpoint(), ack() and remaining(). */
    public function task(): Task
    {
        return $this->task;
    }

    public function getJobId()
    {
        return $this->task->jobId();
    }

    public function getRawBody()
    {
        return $this->task->body();
    }

    /** Decoded only once, because Laravel calls this method about a dozen times per run. */
    public function payload()
    {
        return $this->payload ??= (array) json_decode($this->getRawBody(), true);
    }

    /** Has a fallback because queue:work prints the name before fire() can report that the payload is invalid. */
    public function getName()
    {
        return $this->payload()['job'] ?? 'not pushed by Laravel';
    }

    /** The number of this attempt, from 1. Runs in which the worker died are not counted. */
    public function attempts()
    {
        return $this->task->attempts();
    }

    public function timeout()
    {
        return $this->hasAlarm ? parent::timeout() : 0;
    }

    /**
     * Unix time in seconds; null = no limit. If an operator retries the job after this time, the first run after the
     * retry has no limit, and later runs have the same period as after the push, counted from the retry, as with
     * queue:retry.
     */
    public function retryUntil()
    {
        $until = parent::retryUntil();
        if ($until === null || $this->currentTime() < $until || ($retriedAt = $this->retriedAt()) === null) {
            return $until;
        }
        $isFree = $this->attempts() === 1 && ! $this->hasBegun;

        return $isFree ? null : max($until, $retriedAt + $until - (int) ($this->task->createdAt() ?? $until));
    }

    public function fire()
    {
        $this->hasBegun = true;
        if (! isset($this->payload()['job'])) {
            throw new InvalidPayloadException('This job was not pushed by Laravel: its body has no "job"');
        }
        if (($e = $this->failureFromEarlierRuns()) !== null) {
            // As for a job that exceeded its tries: failed() is called, JobFailed is dispatched, and the failure is
            // logged.
            $this->fail($e);
            throw $e;
        }
        $code = function (): void {
            parent::fire();
        };
        $this->isRunning = true;
        try {
            $this->around !== null ? ($this->around)($code) : $code();
        } catch (TaskTimeout $e) {
            $this->shouldFailOnTimeout() && $this->fail($e);
            throw $e;
        } finally {
            $this->isRunning = false;
            $this->settleIfDecided();
        }
    }

    /** Whether the code of the job runs now. */
    public function isRunning(): bool
    {
        return $this->isRunning;
    }

    /** Whether Laravel's worker runs the job; false if other code called pop(). */
    public function isManaged(): bool
    {
        return $this->isManaged;
    }

    /** Called when Laravel's worker starts the job. */
    public function begin(): void
    {
        $this->isManaged = $this->answer !== null;
        $this->whenBegun !== null && ($this->whenBegun)();
    }

    /** Called when Laravel's worker has finished with the job: sends the answer to the server. */
    public function settle(): void
    {
        $this->answer !== null && ($this->answer)($this);
    }

    /** Called when Laravel's worker reports that the job's code threw an exception. */
    public function hasThrown(Throwable $e): void
    {
        $this->thrown = $e;
        // If nothing has been decided yet, Laravel's worker releases the job after this event.
        $this->isDeletedOrReleased() || $this->hasFailed() ? $this->settle() : $this->endsWithRelease = true;
    }

    /** Answers a job that Laravel's worker does not run as soon as its outcome is decided, because no event follows. */
    private function settleIfDecided(): void
    {
        if (! $this->isManaged && ! $this->isRunning && ($this->isDeletedOrReleased() || $this->hasFailed())) {
            $this->settle();
        }
    }

    /** Accepts seconds, which Laravel passes, and a date or an interval, which applications may pass. */
    public function release($delay = 0)
    {
        parent::release($delay);
        $this->delay = max(0, $this->secondsUntil($delay));
        $this->endsWithRelease ? $this->settle() : $this->settleIfDecided();
    }

    /**
     * Called by Laravel when the job has ended, and possibly earlier by the application. In the latter case the job
     * must not run again even if its worker dies, so it is acknowledged at once.
     */
    public function delete()
    {
        parent::delete();
        $caller = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 2)[1]['class'] ?? null;
        if (! $this->failed && $caller !== CallQueuedHandler::class && $this->isLive()) {
            $this->isManaged || $this->isRunning || $this->answer === null ? $this->task->ack() : $this->settle();
        } elseif (! $this->failed) {
            $this->settleIfDecided();
        }
    }

    public function fail($e = null)
    {
        $this->reason ??= $e;
        if (! $this->deleted && $this->isLive()) {
            // If this worker dies in failed(), the next one must call failed() again instead of running the job.
            $note = ['crashes' => $this->task->crashes(), 'class' => get_debug_type($e), 'message' => substr($e?->getMessage() ?? '', 0, 1000)];
            $note = self::FAILING . json_encode($note, JSON_INVALID_UTF8_SUBSTITUTE) . "\n";
            $this->saved ??= (string) $this->task->checkpointed();
            $this->task->checkpoint(strlen($note . $this->saved) <= 32768 ? $note . $this->saved : $note);
        }
        try {
            parent::fail($e);
        } finally {
            $this->settleIfDecided();
        }
    }

    /** The outcome of this run, to be sent to the server; null = done. */
    public function verdict(): ?Verdict
    {
        if ($this->saved !== null && $this->isLive()) {
            $this->task->checkpoint($this->saved);
        }
        if ($this->failed) {
            return new Fail('', $this->reason ?? $this->thrown);
        }
        if ($this->released && ! $this->task->isAcked()) {
            return new Retry($this->delay, '', $this->thrown);
        }
        if (! $this->deleted && ! $this->task->isAcked()) {
            // A handler of the form `Class@method` neither deleted nor released its job. Other drivers run such a job
            // again after retry_after. If it counted as done, it would be lost.
            $config = $this->container->bound('config') // Not bound if the application was destroyed first.
                ? $this->container->make('config')->get("queue.connections.$this->connectionName")
                : [];

            return new Retry($config['retry_after'] ?? 90, 'the handler neither deleted nor released the job');
        }

        return null;
    }

    /** The exception with which the job must fail before its code runs, because of earlier runs; null if it may run. */
    private function failureFromEarlierRuns(): ?Throwable
    {
        $crashes = $this->task->crashes();
        if (($saved = $this->task->checkpointed()) !== null && str_starts_with($saved, self::FAILING)) {
            [, $note, $rest] = explode("\n", $saved, 3);
            $note = json_decode($note, true);
            if ($crashes > $note['crashes']) {
                $this->saved = $rest;

                return new FailedBefore($note['class'], $note['message']);
            }
            // An operator retried the failed job: run it again with its own checkpoint.
            $this->isLive() && $this->task->checkpoint($rest);
        }
        if ($this->crashLimit !== null && $crashes >= $this->crashLimit) {
            return new WorkerDied($this->resolveName(), $crashes);
        }

        return $this->failureFromTimeout();
    }

    /** As failureFromEarlierRuns(), for a run that exceeded its timeout and ended with its worker, unnoticed by Laravel. */
    private function failureFromTimeout(): ?TimedOut
    {
        if ($this->attempts() === 1 || ! $this->shouldFailOnTimeout() && $this->maxExceptions() === null) {
            return null; // A timeout of the last run would not matter, so the server is not asked.
        }
        $error = $this->shown()['error'] ?? ['class' => null];
        if ($error['class'] !== 'TimedOut') {
            return null;
        }
        $e = new TimedOut($this->resolveName());

        return $this->shouldFailOnTimeout() || $this->exceedsMaxExceptions($e, $error['at']) ? $e : null;
    }

    /**
     * Counts a run that timed out as an exception, as Laravel's own alarm would have done. Returns whether the job
     * has now failed.
     *
     * @param string $at time of the timeout. It identifies the timeout, so that it is not counted again if the worker
     *                   dies after it was counted
     */
    private function exceedsMaxExceptions(TimedOut $e, string $at): bool
    {
        if ($this->container->make('cache')->driver()->add("stoker-timeout:{$this->uuid()}:$at", true, 86400)) {
            $fail = fn (StokerJob $job) => $this->markJobAsFailedIfWillExceedMaxExceptions($job->getConnectionName(), $job, $e);
            $fail->call($this->container->make('queue.worker'), $this);
        }

        return $this->hasFailed();
    }

    /** Unix time in seconds at which an operator last retried the job; null if that never happened. */
    private function retriedAt(): ?int
    {
        $retries = array_filter($this->shown()['history'] ?? [], static fn (array $note) => $note['what'] === 'retried_by_operator');

        return $retries === [] ? null : strtotime(end($retries)['at']);
    }

    /** @return array<string, mixed> what the server reports about the job, as Client::job() */
    private function shown(): array
    {
        return $this->shown ??= ($this->show)($this->getJobId()) ?? [];
    }

    /** Whether the task runs now, so that checkpoints and acknowledgements can be sent. */
    private function isLive(): bool
    {
        return Task::current() === $this->task;
    }
}
