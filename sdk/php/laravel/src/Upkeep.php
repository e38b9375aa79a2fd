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
    /** Nanoseconds between two looks at the cache and the maintenance mode: they may be a network away. */
    public static int $every = 1_000_000_000;
    /** Seconds for which a job without a time limit is held while the application is down. */
    private const HOLD = 3600.0;
    /** Seconds that a held job keeps of its time, or half of it: then it is given back. */
    private const MARGIN = 5.0;

    private mixed $restartedAt;
    private int $lookedAt;

    public function __construct(private Application $app)
    {
        $this->restartedAt = $this->lastRestart();
        $this->lookedAt = hrtime(true);
    }

    /**
     * Whether a job may begin now. While the application is down, waits for a while that it comes up.
     *
     * @return bool false: give the job back and leave
     */
    public function mayBegin(Task $task): bool
    {
        $now = hrtime(true);
        if ($now - $this->lookedAt < self::$every) {
            return true;
        }
        $this->lookedAt = $now;
        $left = $task->remaining() ?? self::HOLD;
        $until = $now + (int) (max($left / 2, $left - self::MARGIN) * 1e9);
        try {
            while ($this->app->isDownForMaintenance()) {
                $this->lookedAt = 0; // The next job looks again.
                if (hrtime(true) >= $until || ! $task->rest(0.25)) {
                    return false;
                }
            }

            return $this->lastRestart() === $this->restartedAt;
        } catch (Throwable $e) {
            // The cache does not answer. That must cost the job no attempt.
            $this->app->make(ExceptionHandler::class)->report($e);

            return false;
        }
    }

    /** Rolls back what a job has left open: the next one would write into it, and lose what it wrote. */
    public function closeTransactions(string|StokerJob $task): void
    {
        if (! $this->app->resolved('db')) {
            return;
        }
        foreach ($this->app->make('db')->getConnections() as $name => $connection) {
            if (($level = $connection->transactionLevel()) === 0) {
                continue;
            }
            $name = (string) $name;
            $task = is_string($task) ? $task : (isset($task->payload()['job']) ? $task->resolveName() : 'A job');
            try {
                $connection->rollBack(0);
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
