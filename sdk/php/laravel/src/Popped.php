<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Closure;
use Illuminate\Contracts\Container\Container;
use Stoker\Inbox;
use Stoker\Retry;

/**
 * One worker connection that serves one queue or one pool, and the job that was popped from it.
 *
 * A job is answered as soon as Laravel, or the code that called pop(), has decided its outcome. The next pop() would
 * be too late, because queue:work may be paused or stopped before it.
 *
 * @internal
 */
final class Popped
{
    /** Seconds between two checks of a worker whether maintenance mode has ended. */
    private const MAINTENANCE_POLL = 0.25;

    /** Minimum seconds to wait for a job that was released without delay, which is written to disk before it returns. */
    private const RELEASE_WAIT = 1.0;

    private ?StokerJob $job = null;
    /** The last job was released without delay. */
    private bool $hasReleased = false;

    /**
     * @param int|null $crashes number of workers that may die on a job before it fails; null = the server's limit
     * @param Closure  $show    returns what the server reports about a job, by its id
     */
    public function __construct(
        private Inbox $inbox,
        private Upkeep $upkeep,
        private Container $app,
        private string $connection,
        private ?int $crashes,
        private Closure $show,
    ) {
    }

    /**
     * Waits for the next job; null if none arrived in time, and once isClosed() is true.
     *
     * @param float $seconds  maximum time to wait
     * @param bool  $isWorker whether a loop of queue:work calls this. Only such a loop obeys maintenance mode and
     *                        queue:restart
     */
    public function next(float $seconds, bool $isWorker): ?StokerJob
    {
        if ($isWorker && $this->upkeep->condition() === Upkeep::DOWN) {
            $this->inbox->rest(min($seconds, self::MAINTENANCE_POLL));

            return null;
        }
        $task = $this->inbox->take($this->hasReleased ? max($seconds, self::RELEASE_WAIT) : $seconds);
        $this->hasReleased = false;
        if ($task === null) {
            return null;
        }
        if ($isWorker && ($condition = $this->upkeep->condition()) !== Upkeep::UP) {
            $this->inbox->return();
            $condition === Upkeep::DOWN || $this->inbox->close();

            return null;
        }

        return $this->job = new StokerJob(
            $this->app,
            $task,
            $this->connection,
            $this->crashes,
            $this->show,
            $this->inbox->interruptible(...),
            false,
            $this->answer(...),
            $this->upkeep->noteTransactions(...),
        );
    }

    /** Answers the job if its code does not run, even if no outcome was decided. */
    public function settle(): void
    {
        $this->job !== null && ! $this->isBusy() && $this->answer($this->job);
    }

    /** Whether the code of the job runs now, so that this method was called from it. */
    public function isBusy(): bool
    {
        return $this->job?->isRunning() ?? false;
    }

    /** Whether the connection is open. Reads from it first, unless a job is unanswered; then it is always true. */
    public function isStillOpen(): bool
    {
        $this->isBusy() || $this->job !== null || $this->inbox->rest(0.0);

        return $this->job !== null || ! $this->isClosed();
    }

    public function isClosed(): bool
    {
        return $this->inbox->isClosed();
    }

    public function close(): void
    {
        $this->settle();
        $this->inbox->close();
    }

    private function answer(StokerJob $job): void
    {
        if ($this->job !== $job) {
            return; // The job has been answered already.
        }
        $this->job = null;
        try {
            // Code that calls pop() itself may have an open transaction of its own.
            $job->isManaged() && $this->upkeep->closeTransactions($job);
        } finally { // closeTransactions() calls the application's exception handler, which may throw.
            $verdict = $job->verdict();
            $this->hasReleased = $verdict instanceof Retry && (float) $verdict->delay === 0.0;
            $this->inbox->answer(null, $verdict);
        }
    }
}
