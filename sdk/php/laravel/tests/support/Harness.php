<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Foundation\Application;
use Illuminate\Queue\Events\JobFailed;
use Stoker\Laravel\ResidentWorker;
use Stoker\Task;
use Stoker\Verdict;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/** Plays the server for one job: assigns it to the worker, records the verdict, and assigns it again after a retry. */
final class Harness
{
    private const JOB_ID = '0192f0c17a3c7bcd8123456789abcdef';

    /** @var list<object> */
    private array $failed = [];

    public function __construct(public readonly Application $app, private ResidentWorker $worker)
    {
        $app['events']->listen(JobFailed::class, function (JobFailed $event): void {
            $this->failed[] = (object) [
                'connection' => $event->connectionName,
                'queue' => $event->job->getQueue(),
                'payload' => $event->job->getRawBody(),
                'exception' => (string) $event->exception,
            ];
        });
    }

    /** The payload that Laravel creates for a job. */
    public function payload(object $job): string
    {
        $queue = $this->app['queue']->connection();

        return (fn (): string => $this->createPayload($job, 'default'))->call($queue);
    }

    /** Runs the job once and returns its verdict; null = done. */
    public function run(string $payload, int $attempt = 0, int $crashes = 0, string $queue = 'default', ?string $checkpoint = null): ?Verdict
    {
        $meta = Meta::encode([Key::JOB_ID => hex2bin(self::JOB_ID), Key::CRASHES => chr($crashes)]
            + ($checkpoint === null ? [] : [Key::CHECKPOINT => $checkpoint]));
        $frame = Frame::of(Type::REQ, id: 1, attempt: $attempt, name: $queue, meta: $meta, body: $payload);
        try {
            $this->worker->work(new Task($frame, true, hrtime(true)));

            return null;
        } catch (Verdict $verdict) {
            return $verdict;
        }
    }

    /**
     * Runs the job until it is done or failed, at most $max times.
     *
     * @return list<string> the verdicts, such as "retry 5", "fail RuntimeException" and "done"
     */
    public function life(object $job, int $max = 10): array
    {
        $payload = $this->payload($job);
        $verdicts = [];
        do {
            $verdict = $this->run($payload, count($verdicts));
            $verdicts[] = match (true) {
                $verdict === null => 'done',
                $verdict->delay !== null => "retry $verdict->delay",
                default => 'fail ' . get_debug_type($verdict->getPrevious()),
            };
        } while ($verdict !== null && $verdict->delay !== null && count($verdicts) < $max);

        return $verdicts;
    }

    /** @return list<object> the failures that JobFailed reported since the last call */
    public function failedJobs(): array
    {
        [$failed, $this->failed] = [$this->failed, []];

        return $failed;
    }
}
