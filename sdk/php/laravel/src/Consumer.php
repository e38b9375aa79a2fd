<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Closure;
use Illuminate\Contracts\Container\Container;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\JobProcessed;
use Illuminate\Queue\Events\JobProcessing;
use Illuminate\Queue\Events\WorkerStopping;
use Stoker\Inbox;
use Stoker\StokerException;
use Stoker\Wire\WireError;
use WeakReference;

/**
 * What stands behind pop(): this process as a worker of Stoker, for stock queue:work. Each queue that is popped from has
 * a connection of its own; between two calls of pop() none of them is assigned a job.
 *
 * @internal
 */
final class Consumer
{
    /** Seconds that one queue of several is waited for, so that none of them lies for long. */
    private const TURN = 0.25;
    /** What the container calls the reason for which this process can't be a worker. */
    private const FAILURE = 'stoker.worker-failure';

    /** @var array<string, list<Popped>> by queue; more than one only while the code of a job pops itself */
    private array $popped = [];
    private Upkeep $upkeep;
    /** queue:work loops: it looks for jobs until something ends it. */
    private bool $isLooping = false;
    /** It was we who ended queue:work. */
    private bool $hasQuit = false;

    /**
     * @param Closure $show   asks the broker what it shows of a job, by its id
     * @param Closure $poolOf the pool that serves a queue; null if the broker does not say
     */
    public function __construct(
        private Container $app,
        private string $connection,
        private ?string $socket,
        private ?int $crashes,
        private Closure $show,
        private Closure $poolOf,
    ) {
        $this->upkeep = new Upkeep($app);
        $this->listen();
    }

    public function __destruct()
    {
        $this->closeAll();
    }

    /**
     * @param string $queue one queue, or "@" and the name of a pool for all of the pool's
     * @throws StokerException|WireError this process can't reach Stoker, or Stoker does not want it
     */
    public function pop(string $queue, float $seconds): ?StokerJob
    {
        try {
            $popped = $this->idle($queue);
            $job = $popped?->next(count($this->popped) > 1 ? min($seconds, self::TURN) : $seconds, $this->isLooping);
        } catch (StokerException|WireError $e) {
            // Laravel's worker reports it, and would go on without an end, or end with 0.
            $this->app->instance(self::FAILURE, $e);
            $this->isLooping && $this->quit();
            throw $e;
        }
        if ($job === null && $popped?->isClosed()) {
            $this->forget($queue, $popped);
            $this->isLooping && $this->quit();
        }

        return $job;
    }

    /** Before queue:work looks for a job, and unless it is to do so only once. */
    public function loops(): void
    {
        if (! $this->isLooping) {
            $this->isLooping = true;
            $this->upkeep->begin();
            foreach ($this->popped as $queue => $all) { // What Stoker has closed before this run began does not end it.
                foreach ($all as $popped) {
                    $popped->isStillOpen() || $this->forget($queue, $popped);
                }
            }
        }
    }

    /** Throws what kept queue:work from working: it does not say so itself, and ends with 0. */
    public static function throwFailure(Container $app): void
    {
        if ($app->bound(self::FAILURE)) {
            $failure = $app->make(self::FAILURE);
            self::forgetFailure($app);
            throw $failure;
        }
    }

    public static function forgetFailure(Container $app): void
    {
        $app->forgetInstance(self::FAILURE);
    }

    /** A connection whose job does not run; null if queue:work is to end. */
    private function idle(string $queue): ?Popped
    {
        foreach ($this->popped[$queue] ?? [] as $popped) {
            if ($popped->isBusy()) {
                continue;
            }
            $popped->settle();
            if ($popped->isStillOpen()) {
                return $popped;
            }
            $this->forget($queue, $popped);
            if ($this->isLooping) {
                // Stoker said to go, for the new version perhaps, while a job ran or queue:work slept.
                $this->quit();

                return null;
            }
        }

        return $this->popped[$queue][] = $this->open($queue);
    }

    private function open(string $queue): Popped
    {
        $isPool = str_starts_with($queue, '@');
        $inbox = Inbox::open(
            [$isPool ? '*' : $queue],
            $this->socket ?? (getenv('STOKER_SOCKET') ?: './stoker.sock'), // As for pushes.
            $isPool ? substr($queue, 1) : $this->poolFor($queue),
            name: 'queue:work',
            softCancel: extension_loaded('pcntl'),
        );
        self::forgetFailure($this->app);

        return new Popped($inbox, $this->upkeep, $this->app, $this->connection, $this->crashes, $this->show);
    }

    /** A spawned worker's pool is known, and whoever sets the environment knows better. */
    private function poolFor(string $queue): ?string
    {
        return getenv('STOKER_FD') === false && getenv('STOKER_POOL') === false ? ($this->poolOf)($queue) : null;
    }

    private function forget(string $queue, Popped $popped): void
    {
        $popped->close();
        $this->popped[$queue] = array_values(array_filter($this->popped[$queue] ?? [], static fn (Popped $one) => $one !== $popped));
    }

    /** Ends queue:work after this look for a job. */
    private function quit(): void
    {
        $this->hasQuit = true;
        $this->app->make('queue.worker')->shouldQuit = true;
    }

    private function closeAll(): void
    {
        foreach ($this->popped as $queue => $all) {
            foreach ($all as $popped) {
                $popped->isBusy() || $this->forget($queue, $popped);
            }
        }
        $this->popped = array_filter($this->popped);
    }

    /** Listeners must not keep it alive: whoever drops the application drops its connections. */
    private function listen(): void
    {
        $self = WeakReference::create($this);
        $events = $this->app->make('events');
        $events->listen(JobProcessing::class, static fn ($event) => $self->get()?->ofThis($event)?->begin());
        $events->listen(JobProcessed::class, static fn ($event) => $self->get()?->ofThis($event)?->settle());
        $events->listen(JobExceptionOccurred::class, static fn ($event) => $self->get()?->ofThis($event)?->hasThrown($event->exception));
        $events->listen(WorkerStopping::class, static fn () => $self->get()?->stops());
    }

    private function ofThis(object $event): ?StokerJob
    {
        return $event->job instanceof StokerJob && $event->connectionName === $this->connection ? $event->job : null;
    }

    /** This queue:work ends; the process may live on, and run another one. */
    private function stops(): void
    {
        $this->closeAll();
        $this->isLooping = false;
        if ($this->hasQuit) {
            $this->hasQuit = false;
            $this->app->make('queue.worker')->shouldQuit = false;
        }
        self::throwFailure($this->app);
    }
}
