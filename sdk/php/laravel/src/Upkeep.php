<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Queue\Worker as LaravelWorker;
use Stoker\Task;
use Stoker\Worker;
use Throwable;

/**
 * Checks of a long-running worker between its jobs: whether the application is in maintenance mode, whether
 * queue:restart was called, and whether a job left a transaction open.
 *
 * @internal
 */
final class Upkeep
{
    public const UP = 'up';
    /** The application is in maintenance mode, after `artisan down`. */
    public const DOWN = 'down';
    /** `queue:restart` has been called, or the cache in which it is recorded does not answer. */
    public const OUTDATED = 'outdated';

    /** Minimum nanoseconds between two checks of the cache and of maintenance mode, which may be network requests. */
    public static int $every = 1_000_000_000;
    /** Seconds for which a job without a timeout may wait for the end of maintenance mode. */
    private const MAINTENANCE_WAIT = 3600.0;
    /** A waiting job is returned this many seconds before its timeout, or after half of its time if that is later. */
    private const MARGIN = 5.0;

    private mixed $restartedAt;
    private int $checkedAt;
    /** @var array<string, int> transaction level before the job, by database connection */
    private array $levels = [];

    public function __construct(private Application $app)
    {
        $this->begin();
    }

    /** Called when a worker starts. Only a queue:restart after this call applies to it. */
    public function begin(): void
    {
        $this->restartedAt = $this->lastRestart();
        $this->checkedAt = hrtime(true);
    }

    /**
     * Returns UP, DOWN or OUTDATED. Checks at most once per $every, and returns UP in between; in maintenance mode
     * every call checks.
     */
    public function condition(): string
    {
        if (hrtime(true) - $this->checkedAt < self::$every) {
            return self::UP;
        }
        $this->checkedAt = hrtime(true);
        try {
            if ($this->app->isDownForMaintenance()) {
                $this->checkedAt = 0; // Check again on the next call.

                return self::DOWN;
            }

            return $this->lastRestart() === $this->restartedAt ? self::UP : self::OUTDATED;
        } catch (Throwable $e) {
            // The cache does not answer. This must not count as an attempt of the job, so return it and stop the worker.
            $this->app->make(ExceptionHandler::class)->report($e);

            return self::OUTDATED;
        }
    }

    /**
     * Whether the worker may start a job that was assigned to it. In maintenance mode, waits for a limited time until
     * it ends.
     *
     * @return bool false = return the job and exit
     */
    public function mayBegin(Task $task): bool
    {
        $condition = $this->condition();
        if ($condition === self::DOWN) {
            $left = $task->remaining() ?? self::MAINTENANCE_WAIT;
            $until = hrtime(true) + (int) (max($left / 2, $left - self::MARGIN) * 1e9);
            do {
                if (hrtime(true) >= $until || ! $task->rest(0.25)) {
                    return false;
                }
            } while (($condition = $this->condition()) === self::DOWN);
        }

        // With strategy "fork" or "snapshot", the next process would be forked from the same outdated application.
        $condition === self::OUTDATED && Worker::reboot();

        return $condition === self::UP;
    }

    /** Records which transactions are open, because a job may run inside transactions of other code, such as a test. */
    public function noteTransactions(): void
    {
        $this->levels = [];
        if ($this->app->resolved('db')) {
            foreach ($this->app->make('db')->getConnections() as $name => $connection) {
                $this->levels[$name] = $connection->transactionLevel();
            }
        }
    }

    /** Rolls back transactions that a job left open. Otherwise later jobs would write into them, and lose their writes. */
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
                $done = 'lost when its connection was closed';
            }
            $this->app->make(ExceptionHandler::class)->report(new \LogicException(
                "$task has left a transaction of level $level open on the database connection \"$name\"; it was $done",
            ));
        }
    }

    private function lastRestart(): mixed
    {
        // $restartable is false after Queue::withoutInterruptionPolling() of Laravel 12.41 and later, which disables
        // this check.
        return LaravelWorker::$restartable ?? true ? $this->app->make('cache')->driver()->get('illuminate:queue:restart') : null;
    }
}
