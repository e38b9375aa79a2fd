<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Closure;
use Illuminate\Contracts\Container\Container;
use Stoker\Inbox;
use Stoker\Retry;

/**
 * One connection as a worker of one queue, or of one pool, and the job that was popped from it.
 *
 * A job is answered as soon as Laravel, or whoever popped it by hand, has decided what becomes of it, and not first at
 * the next pop(): before that queue:work may be paused or stopped.
 *
 * @internal
 */
final class Popped
{
    /** Seconds after which a worker looks again whether the application is up. */
    private const GLANCE = 0.25;

    /** Seconds that a job which was released for at once may take to be there again: it goes by the disk. */
    private const AGAIN = 1.0;

    private ?StokerJob $job = null;
    /** The last job that was answered here runs again at once. */
    private bool $hasReleased = false;

    /**
     * @param int|null $crashes so many workers may die on a job before it fails; null leaves that to the broker
     * @param Closure  $show    asks the broker what it shows of a job, by its id
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
     * The next job; null when none came in so many seconds, and when isClosed().
     *
     * @param bool $isWorker whether queue:work asks, and goes on asking: maintenance and queue:restart hold for that
     */
    public function next(float $seconds, bool $isWorker): ?StokerJob
    {
        if ($isWorker && $this->upkeep->condition() === Upkeep::DOWN) {
            $this->inbox->rest(min($seconds, self::GLANCE));

            return null;
        }
        $task = $this->inbox->take($this->hasReleased ? max($seconds, self::AGAIN) : $seconds);
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

    /** Answers a job that nobody has decided on. */
    public function settle(): void
    {
        $this->job !== null && ! $this->isBusy() && $this->answer($this->job);
    }

    /** Whether the code of its job runs: the one who asks is that code. */
    public function isBusy(): bool
    {
        return $this->job?->isRunning() ?? false;
    }

    /** Whether Stoker has not said to go, as of now. True while its job runs, which reads nothing. */
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
            return; // It has been answered.
        }
        $this->job = null;
        try {
            // Who pops by hand may have a transaction of their own.
            $job->isManaged() && $this->upkeep->closeTransactions($job);
        } finally { // It reports, and the application's exception handler may fail.
            $verdict = $job->verdict();
            $this->hasReleased = $verdict instanceof Retry && (float) $verdict->delay === 0.0;
            $this->inbox->answer(null, $verdict);
        }
    }
}
