<?php

namespace Demo;


/** Stock Laravel: `queue:work` processes on a SQLite table. */
final class Baseline
{
    public function __construct(private Workspace $workspace, private bool $tuned)
    {
        if ($tuned) {
            $workspace->app['db']->statement('PRAGMA journal_mode = WAL');
        }
    }

    /** @return array<string, int|float> times in milliseconds */
    public function measure(int $jobs, int $workers): array
    {
        $queue = $this->workspace->app['queue']->connection('database');
        $pushed = Load::backlog($queue, $jobs);

        $processes = [];
        for ($i = 0; $i < $workers; $i++) {
            $command = [PHP_BINARY, dirname(__DIR__) . '/artisan', 'queue:work', 'database', ...($this->tuned ? ['--sleep=0'] : [])];
            $processes[] = new Process($command, "{$this->workspace->path}/workers.log");
        }
        $ledger = $this->workspace->ledger();
        if (! $ledger->await($jobs, 60)) {
            throw new \RuntimeException("queue:work ended {$ledger->ended()} of $jobs jobs in a minute");
        }
        $throughput = $ledger->throughput();

        // Default workers sleep three seconds when they find nothing: jobs must come at all phases of that sleep.
        $waits = $this->tuned ? Load::trickle($queue, $ledger, 100, 0.01, 0.03) : Load::trickle($queue, $ledger, 12, 0.2, 1.2);
        foreach ($processes as $process) {
            $process->stop();
        }

        return [
            'workers' => $workers,
            'jobs' => $jobs,
            'push_per_s' => $pushed,
            'jobs_per_s' => $throughput,
            'wait_samples' => count($waits),
            'wait_p50_ms' => Stats::percentile($waits, 50) / 1e6,
            'wait_p99_ms' => Stats::percentile($waits, 99) / 1e6,
            'repeated' => array_sum($ledger->runs['SayHello']) - count($ledger->runs['SayHello']),
        ];
    }
}
