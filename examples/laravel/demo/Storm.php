<?php

namespace Demo;

use Stoker\Client;

/** Runs the mixed load: jobs of every kind and calls at the same time, while processes are killed repeatedly. */
final class Storm
{
    private const CALLS = 8192;
    private const KILLS = 8;
    /** Numbers, from 1, of the kills that affect the server, or all processes, instead of the workers. */
    private const SERVER = 3;
    private const EVERYTHING = 6;

    public readonly Calls $calls;
    public readonly float $seconds;
    public int $killed = 0;
    private int $kills = 0;

    public function __construct(
        private Broker $broker,
        private Ledger $ledger,
        private string $directory,
        private Progress $progress,
    ) {
        $this->calls = new Calls(Client::connect($broker->socket, timeout: 15));
    }

    public function run(float $seconds): void
    {
        $start = microtime(true);
        new Process([PHP_BINARY, __DIR__ . '/push.php'], "$this->directory/push.log");
        $this->ledger->await(Mix::jobs(), $seconds, $this->turn(...));
        while ($this->calls->made() < self::CALLS && microtime(true) < $start + $seconds) {
            $this->turn();
        }
        // A job writes its end to the ledger a moment before the server receives its answer.
        for ($deadline = microtime(true) + 5; $this->broker->unfinished() > 0 && microtime(true) < $deadline; usleep(20_000)) {
        }
        $this->seconds = microtime(true) - $start;
    }

    /** Number of jobs that neither succeeded nor failed, plus the number of calls without a correct answer. */
    public function lost(): int
    {
        // The last batch may make more calls than are needed.
        $missing = max(0, self::CALLS - $this->calls->made());

        return Mix::jobs() - $this->ledger->read()->ended() + $missing + $this->calls->wrong;
    }

    public function report(): string
    {
        $rows = [['job', 'pushed', 'done', 'failed', 'runs retried', 'runs killed', 'lost']];
        foreach (Mix::KINDS as $kind => $pushed) {
            $done = $this->ledger->done[$kind] ?? [];
            $failed = $this->ledger->failed[$kind] ?? [];
            $retried = array_sum($this->ledger->retries[$kind] ?? []);
            // Runs that neither succeeded, nor were retried, nor failed by their own code were killed.
            $killed = array_sum($this->ledger->run[$kind] ?? []) - array_sum($done) - $retried
                - ($kind === 'ImportLegacyFeed' ? 0 : count($failed));
            $rows[] = [$kind, $pushed, count($done), count($failed), $retried, $killed, $pushed - count($done + $failed)];
        }
        $total = static fn (int $column) => array_sum(array_column(array_slice($rows, 1), $column));
        $rows[] = ['all', ...array_map($total, range(1, 6))];

        return sprintf(
            "%s jobs and %s calls at once through 2 workers. Killed by SIGKILL on the way: %d workers, then the server,\n"
                . "then server, angel and workers at once, and started again: %.1f s\n\n%s\n%s\n%s",
            number_format(Mix::jobs()),
            number_format($this->calls->made()),
            $this->killed,
            $this->seconds,
            Table::render($rows),
            "{$this->calls->right} of {$this->calls->made()} calls were answered correctly; {$this->calls->again} were repeated"
                . " because the server was killed.\n{$this->broker->unfinished()} jobs are left in the store.\n",
            $this->times(),
        );
    }

    /** A table of wait and run times, as the server measured them. */
    private function times(): string
    {
        $rows = [['ms', 'wait p50', 'p99', 'run p50', 'p99']];
        foreach ($this->broker->show('queues')['queues'] as $queue) {
            if (str_starts_with($queue['name'], 'http:')) {
                continue; // Site sends requests later.
            }
            $rows[] = [
                ($queue['kind'] === 'calls' ? 'service ' : 'queue ') . $queue['name'],
                ...array_map('floatval', [...array_values($queue['wait_ms']), ...array_values($queue['run_ms'])]),
            ];
        }

        return Table::render($rows);
    }

    private function turn(): void
    {
        $this->calls->made() < self::CALLS ? $this->calls->batch() : usleep(2000);
        // Spread the kills over the work and not over time, because machines differ in speed.
        $progress = ($this->ledger->ended() / Mix::jobs() + $this->calls->made() / self::CALLS) / 2;
        if ($this->kills < self::KILLS && $progress > ($this->kills + 1) / (self::KILLS + 1)) {
            match (++$this->kills) {
                self::SERVER => $this->broker->killServer(),
                self::EVERYTHING => $this->broker->killAll(),
                default => $this->killed += $this->broker->killWorkers(),
            };
        }
        $this->progress->show($this->ledger->ended(), Mix::jobs(), sprintf(
            'jobs ended, %d calls answered, %d workers killed',
            $this->calls->made(),
            $this->killed,
        ));
    }
}
