<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Foundation\Application;
use Stoker\Laravel\ResidentWorker;
use Stoker\Task;
use Stoker\Verdict;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/** Plays the broker's part in a job's life: hands it out, hears the verdict, hands it out again. */
final class Harness
{
    private const JOB_ID = '0192f0c17a3c7bcd8123456789abcdef';

    public function __construct(public readonly Application $app, private ResidentWorker $worker)
    {
    }

    /** The payload that Laravel makes of a job. */
    public function payload(object $job): string
    {
        $queue = $this->app['queue']->connection();

        return (fn (): string => $this->createPayload($job, 'default'))->call($queue);
    }

    /** One run; null is "done". */
    public function run(string $payload, int $attempt = 0, int $crashes = 0, string $queue = 'default'): ?Verdict
    {
        $meta = Meta::encode([Key::JOB_ID => hex2bin(self::JOB_ID), Key::CRASHES => chr($crashes)]);
        $frame = Frame::of(Type::REQ, id: 1, attempt: $attempt, name: $queue, meta: $meta, body: $payload);
        try {
            $this->worker->work(new Task($frame, true, hrtime(true)));

            return null;
        } catch (Verdict $verdict) {
            return $verdict;
        }
    }

    /**
     * Runs until the broker would not hand it out again.
     *
     * @return list<string> the verdicts: "retry 5", "fail RuntimeException", "done"
     */
    public function life(object $job, int $most = 10): array
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
        } while ($verdict !== null && $verdict->delay !== null && count($verdicts) < $most);

        return $verdicts;
    }

    /** @return list<object> rows of Laravel's table of failed jobs, which is then emptied */
    public function failedJobs(): array
    {
        $rows = $this->app['db']->table('failed_jobs')->get()->all();
        $this->app['db']->table('failed_jobs')->delete();

        return $rows;
    }

    /** Waits for a worker to have logged a failed job: it does so just after failed() was called. */
    public function awaitFailedJob(): void
    {
        for ($i = 0; $i < 5000 && $this->app['db']->table('failed_jobs')->doesntExist(); $i++) {
            usleep(1000);
        }
    }
}
