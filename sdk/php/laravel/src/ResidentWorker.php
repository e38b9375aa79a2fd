<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\Events\JobPopped;
use Illuminate\Queue\Events\JobPopping;
use Illuminate\Queue\Events\Looping;
use Illuminate\Queue\Events\WorkerStarting;
use Illuminate\Queue\Worker as LaravelWorker;
use Illuminate\Queue\WorkerOptions;
use Stoker\Returned;
use Stoker\Task;
use Stoker\Verdict;
use Stoker\Worker;
use Throwable;

/**
 * Keeps an application booted and runs the jobs and calls that Stoker sends to it.
 *
 *     (new ResidentWorker($app))->onCall('orders.total', OrderTotal::class)->run();
 *
 * Jobs go through Laravel's own worker, so events, middleware, batches, chains, unique locks, `tries`, `backoff`,
 * `maxExceptions`, `retryUntil` and `failed()` mean what they mean under queue:work.
 *
 * Laravel alone counts attempts. Jobs are pushed with tries = 0 (no limit), and the broker hears either "again, after
 * this delay" or "failed" from here. Were both to count, a job released for the last time would be failed by the
 * broker, where nobody can call its failed().
 */
final class ResidentWorker
{
    private Worker $stoker;
    private LaravelWorker $laravel;
    private WorkerOptions $options;
    private Upkeep $upkeep;
    private ?int $crashLimit;
    /** @var array<string, bool> events that this version of Laravel has, or not */
    private array $events = [];

    /**
     * @param string $connection the connection whose jobs these are, for the settings and for events
     * @param bool   $sandbox    each job and call gets a copy of the application: what it binds, and singletons that
     *                           it is the first to make, are gone after it. Instances made before are shared, static
     *                           variables too
     */
    public function __construct(private Application $app, private string $connection = 'stoker', private bool $sandbox = false)
    {
        // Before the application: its shutdown functions may print, ours must have spoken by then.
        $this->stoker = Worker::create();
        // The console's bootstrappers are those of queue:work, Laravel's error handling included.
        $app->make(Kernel::class)->bootstrap();

        $config = $app['config']["queue.connections.$connection"] ?? [];
        $this->crashLimit = array_key_exists('crashes', $config) ? $config['crashes'] : 2;
        $this->options = new WorkerOptions($connection, $config['backoff'] ?? 0, 0, 0, 0, $config['tries'] ?? 1);
        // For maxExceptions, which Laravel counts in the cache.
        $this->laravel = $app->make('queue.worker')->setCache($app->make('cache')->driver());
        $this->upkeep = new Upkeep($app);
        $app->instance(self::class, $this); // For those who ask whose events Looping and its like are.

        $app->make('events')->listen(JobExceptionOccurred::class, static function (JobExceptionOccurred $event): void {
            if ($event->job instanceof StokerJob) {
                $event->job->thrown = $event->exception;
            }
        });
        // Failed jobs are logged by the command queue:work, not by the worker in it, so it is for us to do.
        $app->make('events')->listen(JobFailed::class, static function (JobFailed $event) use ($app): void {
            $app->make('queue.failer')->log(
                $event->connectionName,
                $event->job->getQueue(),
                $event->job->getRawBody(),
                $event->exception,
            );
        });
    }

    /**
     * Serves a method beside the jobs.
     *
     * @param callable(Task): mixed|class-string $handler a class is made by the container for every call
     */
    public function onCall(string $method, callable|string $handler, bool $idempotent = false): self
    {
        $this->stoker->onCall($method, function (Task $task) use ($method, $handler): mixed {
            $this->reset();
            try {
                return $this->inside(static fn (Container $app) => is_string($handler) && class_exists($handler)
                    ? $app->make($handler)($task)
                    : $handler($task));
            } catch (Throwable $e) {
                $this->app->make(ExceptionHandler::class)->report($e);
                $this->inWorker('stopWorkerIfLostConnection', $e);
                throw $e;
            } finally {
                $this->upkeep->closeTransactions($method);
                $this->leaveIfDatabaseIsLost();
            }
        }, $idempotent);

        return $this;
    }

    /** Serves every queue of the pool, until Stoker says to go. */
    public function run(): void
    {
        if (extension_loaded('pcntl')) {
            // A job whose time is up ends by an exception, that its tries and failed() hear of, and not by SIGKILL.
            $this->stoker->softCancel();
            // Who stops a whole control group, as systemd does, signals workers too: they finish what they do.
            pcntl_signal(SIGTERM, function (int $signal): void {
                Worker::stop();
                // Laravel 13 tells jobs that are Interruptible.
                method_exists($this->laravel, 'notifyJobOfSignal') && $this->inWorker('notifyJobOfSignal', $signal);
            });
        }
        $this->raise(WorkerStarting::class, '*', $this->options);
        $this->stoker->onJob('*', $this->work(...))->run();
        $this->laravel->stop(); // Raises WorkerStopping, and does no more.
    }

    /**
     * Runs one job; returns when it is done.
     *
     * @throws Verdict what Laravel decided instead; or Returned, when it could not begin
     */
    public function work(Task $task): void
    {
        if (! $this->upkeep->mayBegin($task)) {
            throw new Returned();
        }
        $this->raise(Looping::class, $task->name, $this->options);
        $this->reset();
        $verdict = $this->inside(function (Container $app) use ($task): ?Verdict {
            $job = new StokerJob($app, $task, $this->connection, $this->crashLimit, $this->show(...));
            $this->raise(JobPopping::class, $task->name);
            $this->raise(JobPopped::class, $job);
            try {
                $this->inWorker('runJob', $job, $this->connection, $this->options);
                $this->upkeep->closeTransactions($job);
            } catch (Throwable $e) {
                // Out of the application's exception handler. What becomes of the job has been decided all the same.
                error_log((string) $e);
            }

            return $job->verdict();
        });
        $this->leaveIfDatabaseIsLost();
        if ($verdict !== null) {
            throw $verdict;
        }
    }

    /** Runs code with the application, or with a copy of it. */
    private function inside(callable $code): mixed
    {
        if (! $this->sandbox) {
            return $code($this->app);
        }
        $copy = new Sandbox($this->app);
        try {
            return $code($copy->app);
        } finally {
            $copy->leave();
        }
    }

    /** @return array<string, mixed>|null what the broker shows of a job */
    private function show(string $job): ?array
    {
        return $this->app->make('queue')->connection($this->connection)->client()->job($job);
    }

    /** Puts back what belongs to one task: scoped instances, resolved facades, the log's context. */
    private function reset(): void
    {
        // The very closure that queue:work calls between jobs, protected in every version from 8 to 13:
        // a list of our own would fall behind what the application's version has to reset.
        (function (): void {
            isset($this->resetScope) && ($this->resetScope)();
        })->call($this->laravel);
    }

    /** A new process connects anew. */
    private function leaveIfDatabaseIsLost(): void
    {
        // The property has another name since Laravel 11.52 and 12.59.
        if ($this->laravel->shouldQuit || ($this->laravel->lostConnection ?? false)) {
            Worker::stop();
        }
    }

    /**
     * Calls one of the methods that queue:work has around process(). They are protected, with the same parameters from
     * 8 to 13: what they report and remember is theirs to know.
     */
    private function inWorker(string $method, mixed ...$arguments): void
    {
        (fn () => $this->$method(...$arguments))->call($this->laravel);
    }

    /** Raises what queue:work does before it has a job, where this version of Laravel has the event. */
    private function raise(string $event, mixed ...$arguments): void
    {
        // To look for a class that is not there goes through all autoloaders; once is enough.
        if ($this->events[$event] ??= class_exists($event)) {
            $this->app->make('events')->dispatch(new $event($this->connection, ...$arguments));
        }
    }
}
