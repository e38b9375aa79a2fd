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
 * Boots an application once and runs the jobs and calls that Stoker assigns to it.
 *
 *     (new ResidentWorker($app))->onCall('orders.total', OrderTotal::class)->run();
 *
 * Jobs run through Laravel's own worker, so events, middleware, batches, chains, unique locks, `tries`, `backoff`,
 * `maxExceptions`, `retryUntil` and `failed()` work as they do with queue:work.
 *
 * Only Laravel counts attempts. Jobs are pushed with tries = 0 (no limit), and this worker answers either "retry
 * after this delay" or "failed". If the server counted too, it would fail a job that was released for the last time,
 * and could not call the job's failed().
 */
final class ResidentWorker
{
    private Worker $stoker;
    private LaravelWorker $laravel;
    private WorkerOptions $options;
    private Upkeep $upkeep;
    private ?int $crashLimit;
    /** @var array<string, bool> whether this version of Laravel has an event, by its class */
    private array $events = [];

    /**
     * @param string $connection name of the queue connection, for its settings and for events
     * @param bool   $sandbox    run each job and call in a copy of the application. Bindings that a task adds, and
     *                           singletons that it is the first to resolve, are gone after it. Instances that were
     *                           resolved before, and static variables, are shared
     */
    public function __construct(private Application $app, private string $connection = 'stoker', private bool $sandbox = false)
    {
        // The SDK registers its shutdown function before the application boots, so that it runs before the
        // functions of the application, which may print.
        Worker::create();
        // The console kernel runs the same bootstrappers as queue:work, including Laravel's error handling.
        $app->make(Kernel::class)->bootstrap();

        $config = $app['config']["queue.connections.$connection"] ?? [];
        $this->stoker = Worker::create(token: Connector::token($config), socket: Connector::address($config));
        $this->crashLimit = array_key_exists('crashes', $config) ? $config['crashes'] : 2;
        $this->options = new WorkerOptions($connection, $config['backoff'] ?? 0, 0, 0, 0, $config['tries'] ?? 1);
        // Laravel counts maxExceptions in the cache.
        $this->laravel = $app->make('queue.worker')->setCache($app->make('cache')->driver());
        $this->upkeep = new Upkeep($app);
        $app->instance(self::class, $this); // Lets listeners of Looping and similar events detect the resident worker.

        $app->make('events')->listen(JobExceptionOccurred::class, static function (JobExceptionOccurred $event): void {
            if ($event->job instanceof StokerJob) {
                $event->job->thrown = $event->exception;
            }
        });
        // With queue:work, the command logs failed jobs, not Laravel's worker, so this class must do it.
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
     * Serves calls of a method, in addition to the jobs.
     *
     * @param string $method "service.method", see Stoker\Worker::onCall()
     * @param callable(Task): mixed|class-string $handler the container makes a new instance of a class for every call
     * @param bool $idempotent whether calls may be retried if their worker dies
     */
    public function onCall(string $method, callable|string $handler, bool $idempotent = false): self
    {
        $this->stoker->onCall($method, function (Task $task) use ($method, $handler): mixed {
            $this->reset();
            try {
                return $this->runInApplication(static fn (Container $app) => is_string($handler) && class_exists($handler)
                    ? $app->make($handler)($task)
                    : $handler($task));
            } catch (Throwable $e) {
                $this->app->make(ExceptionHandler::class)->report($e);
                $this->callLaravelWorker('stopWorkerIfLostConnection', $e);
                throw $e;
            } finally {
                $this->upkeep->closeTransactions($method);
                $this->stopIfDatabaseIsLost();
            }
        }, $idempotent);

        return $this;
    }

    /**
     * Answers the HTTP requests of the pool's sites, in addition to the jobs; see RequestHandler.
     *
     * The application has been booted for the command line, so runningInConsole() is true. If a provider depends on that,
     * serve requests with a worker of their own.
     *
     * @param list<string>|null $sites see Stoker\Worker::onRequest()
     */
    public function onRequest(?array $sites = null): self
    {
        $this->stoker->onRequest(new RequestHandler($this->app), $sites);

        return $this;
    }

    /** Serves every queue of the pool until Stoker asks this worker to exit; see Stoker\Worker::run(). */
    public function run(): void
    {
        if (extension_loaded('pcntl')) {
            // A job whose time is up gets an exception instead of SIGKILL, so that it counts as a try and failed() is
            // called.
            $this->stoker->softCancel();
            // A program that stops a whole control group, such as systemd, also signals workers. They finish their
            // task.
            pcntl_signal(SIGTERM, function (int $signal): void {
                Worker::stop();
                // Laravel 13 notifies jobs that implement Interruptible.
                method_exists($this->laravel, 'notifyJobOfSignal') && $this->callLaravelWorker('notifyJobOfSignal', $signal);
            });
        }
        $this->dispatchEvent(WorkerStarting::class, '*', $this->options);
        $this->stoker->onJob('*', $this->work(...))->run();
        $this->laravel->stop(); // Only dispatches WorkerStopping.
    }

    /**
     * Runs one job. Returns if the job is done.
     *
     * @throws Verdict the other outcome that Laravel decided, or Returned if the job could not start
     */
    public function work(Task $task): void
    {
        if (! $this->upkeep->mayBegin($task)) {
            throw new Returned();
        }
        $this->dispatchEvent(Looping::class, $task->name, $this->options);
        $this->reset();
        $verdict = $this->runInApplication(function (Container $app) use ($task): ?Verdict {
            $job = new StokerJob($app, $task, $this->connection, $this->crashLimit, $this->show(...));
            $this->dispatchEvent(JobPopping::class, $task->name);
            $this->dispatchEvent(JobPopped::class, $job);
            try {
                $this->callLaravelWorker('runJob', $job, $this->connection, $this->options);
                $this->upkeep->closeTransactions($job);
            } catch (Throwable $e) {
                // Thrown by the application's exception handler. The outcome of the job has been decided
                // nevertheless.
                error_log((string) $e);
            }

            return $job->verdict();
        });
        $this->stopIfDatabaseIsLost();
        if ($verdict !== null) {
            throw $verdict;
        }
    }

    /** Runs code with the application or, if $sandbox is set, with a copy of it. */
    private function runInApplication(callable $code): mixed
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

    /** @return array<string, mixed>|null what the server reports about a job, as Client::job() */
    private function show(string $job): ?array
    {
        return $this->app->make('queue')->connection($this->connection)->client()->job($job);
    }

    /** Resets the state that must last for one task only: scoped instances, resolved facades, the log's context. */
    private function reset(): void
    {
        // Call the closure that queue:work calls between jobs (a protected property in Laravel 8 to 13). A list of
        // our own would not match what each version of Laravel has to reset.
        (function (): void {
            isset($this->resetScope) && ($this->resetScope)();
        })->call($this->laravel);
    }

    /** Stops this worker if its database connection is lost; the worker that replaces it opens a new one. */
    private function stopIfDatabaseIsLost(): void
    {
        // The property has another name since Laravel 11.52 and 12.59.
        if ($this->laravel->shouldQuit || ($this->laravel->lostConnection ?? false)) {
            Worker::stop();
        }
    }

    /**
     * Calls a protected method of Laravel's worker, so that it reports and records what it does under queue:work.
     * These methods have the same parameters in Laravel 8 to 13.
     */
    private function callLaravelWorker(string $method, mixed ...$arguments): void
    {
        (fn () => $this->$method(...$arguments))->call($this->laravel);
    }

    /** Dispatches an event that queue:work dispatches, if this version of Laravel has it. */
    private function dispatchEvent(string $event, mixed ...$arguments): void
    {
        // Cache the result, because a lookup of a missing class calls all autoloaders.
        if ($this->events[$event] ??= class_exists($event)) {
            $this->app->make('events')->dispatch(new $event($this->connection, ...$arguments));
        }
    }
}
