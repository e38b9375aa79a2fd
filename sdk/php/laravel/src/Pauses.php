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
 * Tells Stoker of `queue:pause` and `queue:resume`, which raise events since Laravel 12.45, and of their `--all`, since
 * 13.25.
 *
 * @internal
 */
final class Pauses
{
    public function __construct(private Application $app)
    {
    }

    /** Whether this version of Laravel pauses queues. */
    public static function areKnown(): bool
    {
        return class_exists(QueuePaused::class);
    }

    /**
     * Laravel's worker looks by itself whether its queue is paused, and then for no job. It would not hear that it is to
     * go, and with --sleep=0 it would not rest.
     */
    public static function leaveToStoker(): void
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
            throw new InvalidArgumentException('Stoker knows no pause that ends by itself: queue:pause it without a time');
        }
        $queue->pause($event->queue);
    }

    private function resume(object $event): void
    {
        $queue = $this->app->make('queue')->connection($event->connection);
        $queue instanceof StokerQueue && $queue->resume($event->queue);
    }

    /** All queues of every connection to Stoker. */
    private function each(string $do): void
    {
        foreach ($this->app['config']['queue.connections'] as $name => $config) {
            if (($config['driver'] ?? null) === 'stoker') {
                $this->app->make('queue')->connection($name)->$do('@');
            }
        }
    }
}
