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
use Stoker\Internal\Address;
use Stoker\StokerException;
use Stoker\Wire\WireError;
use WeakReference;

/**
 * Implements StokerQueue::pop(): makes this process a worker of Stoker, for stock queue:work. Each queue from which
 * jobs are popped has its own connection. No job is assigned to any of them between two calls of pop().
 *
 * @internal
 */
final class Consumer
{
    /** Maximum time to wait for one queue if there are several, in seconds, so that no queue waits long. */
    private const MAX_WAIT = 0.25;
    /** Name in the container of the exception that kept this process from working. */
    private const FAILURE = 'stoker.worker-failure';

    /** @var array<string, list<Popped>> by queue; more than one per queue only if the code of a job calls pop() */
    private array $popped = [];
    private Upkeep $upkeep;
    /** queue:work runs in a loop, without --once. */
    private bool $isLooping = false;
    /** This class asked queue:work to exit. */
    private bool $hasQuit = false;

    /**
     * @param string|null $socket address of the server, or several; null as for Client::connect()
     * @param string|null $token  token for a server on another machine, or of the pool; null as for Inbox::open()
     * @param int|null $crashes number of workers that may die on a job before it fails; null = the server's limit
     * @param Closure  $show    returns what the server reports about a job, by its id
     * @param Closure  $poolOf  returns the pool that serves a queue; null if it is unknown
     */
    public function __construct(
        private Container $app,
        private string $connection,
        private ?string $socket,
        private ?string $token,
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
     * @param string $queue   name of a queue, or "@" and the name of a pool for all queues of the pool
     * @param float  $seconds maximum time to wait
     * @throws StokerException|WireError this process cannot reach Stoker, or Stoker rejected it
     */
    public function pop(string $queue, float $seconds): ?StokerJob
    {
        try {
            $popped = $this->idle($queue);
            $job = $popped?->next(count($this->popped) > 1 ? min($seconds, self::MAX_WAIT) : $seconds, $this->isLooping);
        } catch (StokerException|WireError $e) {
            // Laravel's worker only reports the exception: it would continue forever, or exit with code 0.
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

    /** Called before queue:work polls for a job, unless it runs with --once. */
    public function onLooping(): void
    {
        if (! $this->isLooping) {
            $this->isLooping = true;
            $this->upkeep->begin();
            // A connection that Stoker closed before this run of queue:work must not end it.
            foreach ($this->popped as $queue => $all) {
                foreach ($all as $popped) {
                    $popped->isStillOpen() || $this->forget($queue, $popped);
                }
            }
        }
    }

    /** Throws the exception that kept queue:work from working. Laravel itself would exit with code 0. */
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

    /** Returns a connection of the queue whose job does not run now; null if queue:work must exit. */
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
                // While a job ran or queue:work slept, Stoker asked this worker to exit, for example because of a
                // reload.
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
            $this->socket ?? (Address::variable() === null ? './stoker.sock' : null), // The same server as for pushes.
            $isPool ? substr($queue, 1) : $this->poolFor($queue),
            $this->token,
            name: 'queue:work',
            softCancel: extension_loaded('pcntl'),
        );
        self::forgetFailure($this->app);

        return new Popped($inbox, $this->upkeep, $this->app, $this->connection, $this->crashes, $this->show);
    }

    /** The pool to join. Null if Stoker started this process, because it knows the pool, or if STOKER_POOL is set. */
    private function poolFor(string $queue): ?string
    {
        return getenv('STOKER_FD') === false && getenv('STOKER_POOL') === false ? ($this->poolOf)($queue) : null;
    }

    private function forget(string $queue, Popped $popped): void
    {
        $popped->close();
        $this->popped[$queue] = array_values(array_filter($this->popped[$queue] ?? [], static fn (Popped $one) => $one !== $popped));
    }

    /** Makes queue:work exit after the current poll for a job. */
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

    /** The listeners have a weak reference, so that the connections are closed when the application is destroyed. */
    private function listen(): void
    {
        $self = WeakReference::create($this);
        $events = $this->app->make('events');
        $events->listen(JobProcessing::class, static fn ($event) => $self->get()?->ownJob($event)?->begin());
        $events->listen(JobProcessed::class, static fn ($event) => $self->get()?->ownJob($event)?->settle());
        $events->listen(JobExceptionOccurred::class, static fn ($event) => $self->get()?->ownJob($event)?->hasThrown($event->exception));
        $events->listen(WorkerStopping::class, static fn () => $self->get()?->onStopping());
    }

    private function ownJob(object $event): ?StokerJob
    {
        return $event->job instanceof StokerJob && $event->connectionName === $this->connection ? $event->job : null;
    }

    /** Called when queue:work exits. The process may continue and run it again. */
    private function onStopping(): void
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
