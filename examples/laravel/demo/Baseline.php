<?php

namespace Demo;

/** Measures stock Laravel: `queue:work` processes with a SQLite table. */
final class Baseline
{
    public function __construct(private Workspace $workspace)
    {
    }

    /** Default settings: one process, three seconds of sleep when the queue is empty, SQLite's rollback journal. */
    public function defaults(int $jobs): Figures
    {
        $figures = new Figures('queue:work', '1 worker, defaults', 'SQLite', $jobs);
        // Push jobs at random times, so that they arrive in all phases of the sleep.
        $this->measure($figures, 1, [], static fn ($queue, $ledger) => Load::trickle($queue, $ledger, 12, 0.2, 1.2));

        return $figures;
    }

    /** Best settings for SQLite. Their cost: an idle worker that never sleeps uses most of a CPU. */
    public function tuned(int $jobs): Figures
    {
        $this->workspace->app['db']->statement('PRAGMA journal_mode = WAL');
        $figures = new Figures('queue:work, tuned', '2 workers, --sleep=0', 'SQLite, WAL', $jobs);
        $this->measure($figures, 2, ['--sleep=0'], static fn ($queue, $ledger) => Load::trickle($queue, $ledger, 100, 0.01, 0.03));

        return $figures;
    }

    /** @param list<string> $options */
    private function measure(Figures $figures, int $workers, array $options, callable $trickle): void
    {
        $queue = $this->workspace->app['queue']->connection('database');
        $ledger = $this->workspace->ledger();
        $figures->pushed = Load::backlog($queue, $figures->jobs);

        $command = [PHP_BINARY, dirname(__DIR__) . '/artisan', 'queue:work', 'database', ...$options];
        $processes = [];
        while (count($processes) < $workers) {
            $processes[] = new Process($command, "{$this->workspace->path}/workers.log");
        }
        // A slow disk must not make the demo slow: measure the jobs that ended within 15 s, and drop the rest.
        $ledger->await($figures->jobs, 15);
        $figures->throughput = $ledger->throughput();
        $figures->jobs = $ledger->ended();
        $this->workspace->app['db']->table('jobs')->delete();
        $figures->waits = $trickle($queue, $ledger);
        foreach ($processes as $process) {
            $process->stop();
        }
    }
}
