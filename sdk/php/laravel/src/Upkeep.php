<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Queue\Worker as LaravelWorker;
use Stoker\Task;
use Throwable;

/**
 * What a worker that lives long looks after between its jobs: that the application is up, that nobody has called
 * queue:restart, that no job leaves a transaction open.
 *
 * @internal
 */
final class Upkeep
{
    public const UP = 'up';
    /** `artisan down` has been called. */
    public const DOWN = 'down';
    /** `queue:restart` has been called, or the cache that would say so does not answer. */
    public const OUTDATED = 'outdated';

    /** Nanoseconds between two looks at the cache and the maintenance mode: they may be a network away. */
    public static int $every = 1_000_000_000;
    /** Seconds for which a job without a time limit is held while the application is down. */
    private const HOLD = 3600.0;
    /** Seconds that a held job keeps of its time, or half of it: then it is given back. */
    private const MARGIN = 5.0;

    private mixed $restartedAt;
    private int $lookedAt;
    /** @var array<string, int> open transactions by database connection, before the job */
    private array $levels = [];

    public function __construct(private Application $app)
    {
        $this->begin();
    }

    /** A worker begins to work: only a queue:restart after this is meant for it. */
    public function begin(): void
    {
        $this->restartedAt = $this->lastRestart();
        $this->lookedAt = hrtime(true);
    }

    /** Whether this worker may work: one of the constants. Looks once a second at the most, and while it is down. */
    public function condition(): string
    {
        if (hrtime(true) - $this->lookedAt < self::$every) {
            return self::UP;
        }
        $this->lookedAt = hrtime(true);
        try {
            if ($this->app->isDownForMaintenance()) {
                $this->lookedAt = 0; // The next look is at once.

                return self::DOWN;
            }

            return $this->lastRestart() === $this->restartedAt ? self::UP : self::OUTDATED;
        } catch (Throwable $e) {
            // The cache does not answer. That must cost no job an attempt.
            $this->app->make(ExceptionHandler::class)->report($e);

            return self::OUTDATED;
        }
    }

    /**
     * For a worker that is sent its jobs unasked: whether this one may begin now. While the application is down, waits
     * for a while that it comes up.
     *
     * @return bool false: return the job, and leave
     */
    public function mayBegin(Task $task): bool
    {
        if (($condition = $this->condition()) === self::DOWN) {
            $left = $task->remaining() ?? self::HOLD;
            $until = hrtime(true) + (int) (max($left / 2, $left - self::MARGIN) * 1e9);
            do {
                if (hrtime(true) >= $until || ! $task->rest(0.25)) {
                    return false;
                }
            } while (($condition = $this->condition()) === self::DOWN);
        }

        return $condition === self::UP;
    }

    /** Notes which transactions are open: a job may run inside those of somebody else, as of a test. */
    public function noteTransactions(): void
    {
        $this->levels = [];
        if ($this->app->resolved('db')) {
            foreach ($this->app->make('db')->getConnections() as $name => $connection) {
                $this->levels[$name] = $connection->transactionLevel();
            }
        }
    }

    /** Rolls back what a job has left open: the next one would write into it, and lose what it wrote. */
    public function closeTransactions(string|StokerJob $task): void
    {
        if (! $this->app->resolved('db')) {
            return;
        }
        foreach ($this->app->make('db')->getConnections() as $name => $connection) {
            $before = $this->levels[$name] ?? 0;
            if (($level = $connection->transactionLevel()) <= $before) {
                continue;
            }
            $name = (string) $name;
            $task = is_string($task) ? $task : (isset($task->payload()['job']) ? $task->resolveName() : 'A job');
            try {
                $connection->rollBack($before);
                $done = 'rolled back';
            } catch (Throwable) {
                $connection->disconnect();
                $done = 'lost with its connection, which is closed';
            }
            $this->app->make(ExceptionHandler::class)->report(new \LogicException(
                "$task has left a transaction of level $level open on the database connection \"$name\"; it is $done",
            ));
        }
    }

    private function lastRestart(): mixed
    {
        // Queue::withoutInterruptionPolling() of Laravel 12.41 and later: nobody is to look.
        return LaravelWorker::$restartable ?? true ? $this->app->make('cache')->driver()->get('illuminate:queue:restart') : null;
    }
}
