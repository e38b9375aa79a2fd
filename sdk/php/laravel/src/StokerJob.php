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
 * One run of a job, in Laravel's terms. It only takes down what Laravel decides; verdict() turns that into the one
 * answer that the broker hears, so no path can answer twice or not at all.
 */
final class StokerJob extends Job implements JobContract
{
    /** What a checkpoint begins with that was saved before failed() was called. */
    private const FAILING = "\0stoker/laravel failing\n";

    /** Seconds, once the job is released. */
    private int $delay = 0;
    private ?Throwable $reason = null;
    private ?array $payload = null;
    /** What the broker shows of it, once it has been asked. */
    private ?array $shown = null;
    private bool $hasBegun = false;
    /** The job's own checkpoint, in the place of which a note stands while failed() runs. */
    private ?string $saved = null;
    /** Its code runs. */
    private bool $isRunning = false;
    /** Laravel's worker runs it, and raises events by which it is answered. Else it was popped by hand. */
    private bool $isManaged = false;
    /** The next release is the last that Laravel's worker does to it. */
    private bool $endsWithRelease = false;
    /** What its code threw, as JobExceptionOccurred tells. */
    public ?Throwable $thrown = null;

    /**
     * @param int|null      $crashLimit so many workers may die on it before it fails; null leaves that to the broker
     * @param Closure       $show       asks the broker what it shows of a job, by its id
     * @param Closure|null  $around     runs the job's code, given as a closure
     * @param bool          $hasAlarm   whether Laravel may set an alarm for the job's time; else the broker alone looks
     * @param Closure|null  $answer     sends the verdict(); null if whoever made the job does that
     * @param Closure|null  $whenBegun  called before Laravel's worker runs it
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

    /** The broker's own view of it: progress(), checkpoint(), ack(), remaining(). */
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

    /** Laravel asks for it a dozen times per run; one decoding is enough. */
    public function payload()
    {
        return $this->payload ??= (array) json_decode($this->getRawBody(), true);
    }

    /** queue:work prints it before fire() can say what is missing. */
    public function getName()
    {
        return $this->payload()['job'] ?? 'not pushed by Laravel';
    }

    /** 1 on the first run. Runs that ended with the process are not in it: they are no verdict of the code. */
    public function attempts()
    {
        return $this->task->attempts();
    }

    public function timeout()
    {
        return $this->hasAlarm ? parent::timeout() : 0;
    }

    /**
     * Unix time; null for no such date. An operator who retries a job after it means it to run: its first run is then
     * bound by no date, those after it have as long as the job had when it was pushed, as with queue:retry.
     */
    public function retryUntil()
    {
        $until = parent::retryUntil();
        if ($until === null || $this->currentTime() < $until || ($revived = $this->revivedAt()) === null) {
            return $until;
        }
        $isFree = $this->attempts() === 1 && ! $this->hasBegun;

        return $isFree ? null : max($until, $revived + $until - (int) ($this->task->createdAt() ?? $until));
    }

    public function fire()
    {
        $this->hasBegun = true;
        if (! isset($this->payload()['job'])) {
            throw new InvalidPayloadException('This job was not pushed by Laravel: its body has no "job"');
        }
        if (($e = $this->fateOfEarlierRuns()) !== null) {
            // As Laravel treats a job that ran too often: failed() is called, JobFailed is raised, and it is logged.
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
            $this->decided();
        }
    }

    /** Whether its code runs now. */
    public function isRunning(): bool
    {
        return $this->isRunning;
    }

    /** Whether Laravel's worker runs it; else it was popped by hand. */
    public function isManaged(): bool
    {
        return $this->isManaged;
    }

    /** Laravel's worker begins with it. */
    public function begin(): void
    {
        $this->isManaged = $this->answer !== null;
        $this->whenBegun !== null && ($this->whenBegun)();
    }

    /** Laravel's worker has done with it: now the broker gets its answer. */
    public function settle(): void
    {
        $this->answer !== null && ($this->answer)($this);
    }

    /** Its code threw, as Laravel's worker reports. */
    public function hasThrown(Throwable $e): void
    {
        $this->thrown = $e;
        // The worker releases it after this event, if nothing has been decided yet.
        $this->isDeletedOrReleased() || $this->hasFailed() ? $this->settle() : $this->endsWithRelease = true;
    }

    /** What was popped by hand is answered when it has been decided on, as no event follows. */
    private function decided(): void
    {
        if (! $this->isManaged && ! $this->isRunning && ($this->isDeletedOrReleased() || $this->hasFailed())) {
            $this->settle();
        }
    }

    /** Takes what Laravel itself gives (seconds) and what applications do (a moment, an interval). */
    public function release($delay = 0)
    {
        parent::release($delay);
        $this->delay = max(0, $this->secondsUntil($delay));
        $this->endsWithRelease ? $this->settle() : $this->decided();
    }

    /**
     * Called at the end by Laravel itself, and by applications before it. Then the job must not run again even if its
     * worker dies later, and the broker hears of it at once.
     */
    public function delete()
    {
        parent::delete();
        $caller = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 2)[1]['class'] ?? null;
        if (! $this->failed && $caller !== CallQueuedHandler::class && $this->isLive()) {
            $this->isManaged || $this->isRunning || $this->answer === null ? $this->task->ack() : $this->settle();
        } elseif (! $this->failed) {
            $this->decided();
        }
    }

    public function fail($e = null)
    {
        $this->reason ??= $e;
        if (! $this->deleted && $this->isLive()) {
            // If this worker dies in failed(), the next one shall call failed() and not run the job again.
            $note = ['crashes' => $this->task->crashes(), 'class' => get_debug_type($e), 'message' => substr($e?->getMessage() ?? '', 0, 1000)];
            $note = self::FAILING . json_encode($note, JSON_INVALID_UTF8_SUBSTITUTE) . "\n";
            $this->saved ??= (string) $this->task->checkpointed();
            $this->task->checkpoint(strlen($note . $this->saved) <= 32768 ? $note . $this->saved : $note);
        }
        try {
            parent::fail($e);
        } finally {
            $this->decided();
        }
    }

    /** What the broker is to hear of this run; null is "done". */
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
            // A handler of the old kind (`Class@method`) that neither deleted nor released its job. Stock drivers
            // hand it out again after retry_after; to call it done would be to lose it.
            $config = $this->container->bound('config') // Or the application has been dropped before it decided.
                ? $this->container->make('config')->get("queue.connections.$this->connectionName")
                : [];

            return new Retry($config['retry_after'] ?? 90, 'was not deleted');
        }

        return null;
    }

    /** Why the job has to fail before its code runs, by what became of earlier runs. */
    private function fateOfEarlierRuns(): ?Throwable
    {
        $crashes = $this->task->crashes();
        if (($saved = $this->task->checkpointed()) !== null && str_starts_with($saved, self::FAILING)) {
            [, $note, $rest] = explode("\n", $saved, 3);
            $note = json_decode($note, true);
            if ($crashes > $note['crashes']) {
                $this->saved = $rest;

                return new FailedBefore($note['class'], $note['message']);
            }
            // Somebody has retried the failed job: it begins anew, with what it had saved itself.
            $this->isLive() && $this->task->checkpoint($rest);
        }
        if ($this->crashLimit !== null && $crashes >= $this->crashLimit) {
            return new WorkerDied($this->resolveName(), $crashes);
        }

        return $this->fateOfTimeout();
    }

    /** The same if the last run could not be interrupted: it ended with its worker, and Laravel never heard of it. */
    private function fateOfTimeout(): ?TimedOut
    {
        if ($this->attempts() === 1 || ! $this->shouldFailOnTimeout() && $this->maxExceptions() === null) {
            return null; // The broker need not be asked.
        }
        $error = $this->shown()['error'] ?? ['class' => null];
        if ($error['class'] !== 'TimedOut') {
            return null;
        }
        $e = new TimedOut($this->resolveName());

        return $this->shouldFailOnTimeout() || $this->exceedsMaxExceptions($e, $error['at']) ? $e : null;
    }

    /**
     * Counts a run that timed out as an exception, where Laravel's own alarm would have done so.
     *
     * @param string $at when it did: a worker may die after it has counted, and the next one must not count it again
     */
    private function exceedsMaxExceptions(TimedOut $e, string $at): bool
    {
        if ($this->container->make('cache')->driver()->add("stoker-timeout:{$this->uuid()}:$at", true, 86400)) {
            $fail = fn (StokerJob $job) => $this->markJobAsFailedIfWillExceedMaxExceptions($job->getConnectionName(), $job, $e);
            $fail->call($this->container->make('queue.worker'), $this);
        }

        return $this->hasFailed();
    }

    /** Unix time at which an operator has retried it last; null if none has. */
    private function revivedAt(): ?int
    {
        $revivals = array_filter($this->shown()['history'] ?? [], static fn (array $note) => $note['what'] === 'revived');

        return $revivals === [] ? null : strtotime(end($revivals)['at']);
    }

    /** @return array<string, mixed> as Client::job() */
    private function shown(): array
    {
        return $this->shown ??= ($this->show)($this->getJobId()) ?? [];
    }

    /** Whether there is a broker to tell. */
    private function isLive(): bool
    {
        return Task::current() === $this->task;
    }
}
