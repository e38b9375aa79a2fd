<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\InvalidPayloadException;
use Illuminate\Queue\Jobs\Job;
use Stoker\Task;
use Stoker\TaskTimeout;
use Throwable;

/**
 * One run of a job, in Laravel's terms. It only takes down what Laravel decides; the resident worker turns that
 * into the one answer that the broker hears, so no path can answer twice or not at all.
 */
final class StokerJob extends Job implements JobContract
{
    /** Seconds, once the job is released. */
    private int $delay = 0;
    private ?Throwable $reason = null;
    private ?array $payload = null;

    /** @param int|null $crashLimit so many workers may die on it before it fails; null leaves that to the broker */
    public function __construct(
        Container $container,
        private Task $task,
        string $connectionName,
        private ?int $crashLimit,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $task->name;
    }

    public function getJobId()
    {
        return $this->task->jobId();
    }

    public function getRawBody()
    {
        return $this->task->body();
    }

    /** Laravel asks for it a dozen times per run; one decoding is enough. */
    public function payload()
    {
        return $this->payload ??= (array) json_decode($this->getRawBody(), true);
    }

    /** 1 on the first run. Runs that ended with the process are not in it: they are no verdict of the code. */
    public function attempts()
    {
        return $this->task->attempts();
    }

    public function fire()
    {
        if (! isset($this->payload()['job'])) {
            throw new InvalidPayloadException('This job was not pushed by Laravel: its body has no "job"');
        }
        if ($this->crashLimit !== null && $this->task->crashes() >= $this->crashLimit) {
            // As Laravel treats a job that ran too often: failed() is called, JobFailed is raised, and it is logged.
            $this->fail($e = new WorkerDied($this->resolveName(), $this->task->crashes()));
            throw $e;
        }
        try {
            parent::fire();
        } catch (TaskTimeout $e) {
            $this->shouldFailOnTimeout() && $this->fail($e);
            throw $e;
        }
    }

    /** Takes what Laravel itself gives (seconds) and what applications do (a moment, an interval). */
    public function release($delay = 0)
    {
        parent::release($delay);
        $this->delay = max(0, $this->secondsUntil($delay));
    }

    public function fail($e = null)
    {
        $this->reason ??= $e;
        parent::fail($e);
    }

    public function releaseDelay(): int
    {
        return $this->delay;
    }

    public function failReason(): ?Throwable
    {
        return $this->reason;
    }
}
