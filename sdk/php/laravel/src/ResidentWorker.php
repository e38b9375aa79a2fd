<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Contracts\Console\Kernel;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\Worker as LaravelWorker;
use Illuminate\Queue\WorkerOptions;
use Stoker\Fail;
use Stoker\Retry;
use Stoker\Task;
use Stoker\Worker;
use Throwable;

/**
 * Keeps an application booted and runs the jobs and calls that Stoker sends to it.
 *
 *     (new ResidentWorker($app))->onCall('orders.total', OrderTotal::class)->run();
 *
 * Jobs go through Laravel's own Worker::process(), so events, middleware, batches, chains, unique locks, `tries`,
 * `backoff`, `maxExceptions`, `retryUntil` and `failed()` mean what they mean under queue:work.
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
    private ?int $crashLimit;

    public function __construct(private Application $app, private string $connection = 'stoker')
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
        $this->stoker->onCall($method, function (Task $task) use ($handler): mixed {
            $this->reset();
            try {
                return is_string($handler) && class_exists($handler) ? $this->app->make($handler)($task) : $handler($task);
            } catch (Throwable $e) {
                $this->report($e);
                throw $e;
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
        }
        $this->stoker->onJob('*', $this->work(...))->run();
    }

    /**
     * Runs one job; returns when it is done.
     *
     * @throws Retry|Fail what Laravel decided instead
     */
    public function work(Task $task): void
    {
        $this->reset();
        $job = new StokerJob($this->app, $task, $this->connection, $this->crashLimit);
        try {
            $this->laravel->process($this->connection, $job, $this->options);
        } catch (Throwable $e) {
            $this->report($e);
        }

        if ($job->hasFailed()) {
            throw new Fail('', $job->failReason() ?? $e ?? null);
        }
        if ($job->isReleased()) {
            throw new Retry($job->releaseDelay(), '', $e ?? null);
        }
        if (! $job->isDeleted()) {
            // A handler of the old kind (`Class@method`) that neither deleted nor released its job. Stock drivers
            // hand it out again after retry_after; to call it done would be to lose it.
            throw new Retry($this->app['config']["queue.connections.$this->connection.retry_after"] ?? 90, 'was not deleted');
        }
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

    private function report(Throwable $e): void
    {
        $this->app->make(ExceptionHandler::class)->report($e);
    }
}
