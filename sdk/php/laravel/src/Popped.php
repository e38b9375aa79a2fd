<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Contracts\Container\Container;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\JobProcessed;
use Illuminate\Queue\Events\WorkerStopping;
use Stoker\Inbox;
use Stoker\Returned;

/**
 * What stands behind pop(): this process as a worker of Stoker, for stock queue:work.
 *
 * A job is answered as soon as Laravel has decided what becomes of it, and not first at the next pop(): before that
 * queue:work may be paused or stopped.
 *
 * @internal
 */
final class Popped
{
    /** A process is one worker. */
    private static ?self $only = null;

    private Inbox $inbox;
    private Upkeep $upkeep;
    private ?StokerJob $job = null;

    public static function of(Container $app, string $connection, ?string $socket, string $queue, ?int $crashes): self
    {
        if (self::$only !== null && (self::$only->queue !== $queue || self::$only->connection !== $connection)) {
            // Laravel's worker would report an exception, and go on serving the first queue alone.
            fprintf(
                STDERR,
                'This worker serves "%s" of connection %s and can\'t serve "%s" of %s too. By which weights a worker '
                . "serves several queues, stoker.toml says: run queue:work with one queue, or --queue=@POOL for all of a pool\n",
                self::$only->queue,
                self::$only->connection,
                $queue,
                $connection,
            );
            exit(1);
        }

        return self::$only ??= new self($app, $connection, $socket, $queue, $crashes);
    }

    private function __construct(
        private Container $app,
        private string $connection,
        ?string $socket,
        private string $queue,
        private ?int $crashes,
    ) {
        $isPool = str_starts_with($queue, '@');
        $this->upkeep = new Upkeep($app);
        $this->inbox = Inbox::open(
            [$isPool ? '*' : $queue],
            $socket,
            $isPool ? substr($queue, 1) : null,
            name: 'queue:work',
            softCancel: extension_loaded('pcntl'),
        );
        $events = $app->make('events');
        $events->listen(JobProcessed::class, fn ($event) => $event->job === $this->job && $this->answer());
        $events->listen(JobExceptionOccurred::class, function ($event): void {
            if ($event->job === $this->job) {
                $this->job->thrown = $event->exception;
                // Laravel releases it after this event, if nothing has been decided yet.
                $this->job->isDeletedOrReleased() || $this->job->hasFailed()
                    ? $this->answer()
                    : $this->job->whenReleased = $this->answer(...);
            }
        });
        $events->listen(WorkerStopping::class, function (): void {
            $this->answer();
            $this->inbox->close();
        });
    }

    public function next(float $seconds): ?StokerJob
    {
        $this->answer();
        $task = $this->inbox->take($seconds);
        if ($task !== null && ! $this->upkeep->mayBegin($task)) {
            $this->inbox->answer(null, new Returned());
            $task = null;
        }
        if ($task === null) {
            if ($this->inbox->isClosed()) {
                $this->app->make('queue.worker')->shouldQuit = true;
            }

            return null;
        }

        return $this->job = new StokerJob(
            $this->app,
            $task,
            $this->connection,
            $this->crashes,
            fn (string $id) => $this->app->make('queue')->connection($this->connection)->client()->job($id),
            $this->inbox->interruptible(...),
            false,
        );
    }

    private function answer(): void
    {
        if ($this->job !== null) {
            [$job, $this->job] = [$this->job, null];
            try {
                $this->upkeep->closeTransactions($job);
            } finally { // It reports, and the application's exception handler may fail.
                $this->inbox->answer(null, $job->verdict());
            }
        }
    }
}
