<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Contracts\Events\Dispatcher;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Queue\Events\QueuePaused;
use Illuminate\Queue\Events\QueueResumed;
use Illuminate\Queue\Events\QueuesPaused;
use Illuminate\Queue\Events\QueuesResumed;
use Illuminate\Queue\Worker;
use InvalidArgumentException;

/**
 * Applies `queue:pause` and `queue:resume` to Stoker's queues. Laravel 12.45 and later dispatch events for them, and
 * for their option `--all` since 13.25.
 *
 * @internal
 */
final class Pauses
{
    public function __construct(private Application $app)
    {
    }

    /** Whether this version of Laravel can pause queues. */
    public static function areSupported(): bool
    {
        return class_exists(QueuePaused::class);
    }

    /**
     * Disables the pause check of Laravel's worker. While its queue is paused, that worker does not call pop(), so it
     * would not notice that Stoker tells it to exit, and with --sleep=0 it would loop without a pause.
     */
    public static function disableLaravelCheck(): void
    {
        Worker::$pausable = false;
    }

    public function subscribe(Dispatcher $events): void
    {
        $events->listen(QueuePaused::class, $this->pause(...));
        $events->listen(QueueResumed::class, $this->resume(...));
        $events->listen(QueuesPaused::class, fn () => $this->each('pause'));
        $events->listen(QueuesResumed::class, fn () => $this->each('resume'));
    }

    private function pause(object $event): void
    {
        $queue = $this->app->make('queue')->connection($event->connection);
        if (! $queue instanceof StokerQueue) {
            return;
        }
        if (($event->ttl ?? null) !== null) {
            throw new InvalidArgumentException('Stoker does not support a pause with a time limit: run queue:pause without one');
        }
        $queue->pause($event->queue);
    }

    private function resume(object $event): void
    {
        $queue = $this->app->make('queue')->connection($event->connection);
        $queue instanceof StokerQueue && $queue->resume($event->queue);
    }

    /** Pauses or resumes all queues of every connection to Stoker. */
    private function each(string $do): void
    {
        foreach ($this->app['config']['queue.connections'] as $name => $config) {
            if (($config['driver'] ?? null) === 'stoker') {
                $this->app->make('queue')->connection($name)->$do('@');
            }
        }
    }
}
