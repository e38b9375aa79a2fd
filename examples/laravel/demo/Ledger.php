<?php

namespace Demo;

/** Reads new lines of the application's ledger. The arrays $run, $done and $failed are named after their events. */
final class Ledger
{
    /** @var array<string, array<int, int>> number of runs, by class and number of the job */
    public array $run = [];
    /** @var array<string, array<int, int>> number of retries by the job's own code, by class and number of the job */
    public array $retries = [];
    /** @var array<string, array<int, int>> number of runs that reached their end, by class and number of the job */
    public array $done = [];
    /** @var array<string, array<int, int>> number of calls of failed(), by class and number of the job */
    public array $failed = [];
    /** @var list<int> nanoseconds between due time and start, of first runs only */
    public array $waits = [];

    private int $firstRun = PHP_INT_MAX;
    private int $lastEnd = 0;
    private int $ended = 0;
    /** @var resource */
    private $file;
    private string $partial = '';

    public function __construct(string $path)
    {
        touch($path);
        $this->file = fopen($path, 'r');
        fseek($this->file, 0, SEEK_END);
    }

    /** Reads the lines that were written since the last call. */
    public function read(): self
    {
        $lines = explode("\n", $this->partial . stream_get_contents($this->file));
        $this->partial = array_pop($lines);
        foreach ($lines as $line) {
            [$event, $class, $number, $attempt, $waited, $at] = explode("\t", $line);
            $job = class_basename($class);
            $before = $this->{$event}[$job][$number] ?? 0;
            $this->{$event}[$job][$number] = $before + 1;
            if ($event !== 'run') {
                // A job whose worker is killed after its work and before its answer ends twice. Count it once.
                $this->ended += (int) ($before === 0 && ! isset($this->done[$job][$number], $this->failed[$job][$number]));
                $this->lastEnd = (int) $at;
            } elseif ($attempt > 1 + ($this->retries[$job][$number] ?? 0)) {
                $this->retries[$job][$number] = $attempt - 1;
            } elseif ($before === 0) {
                $this->waits[] = (int) $waited;
                $this->firstRun = min($this->firstRun, (int) $at);
            }
        }

        return $this;
    }

    /** Number of jobs that have succeeded or failed. */
    public function ended(): int
    {
        return $this->ended;
    }

    /** Waits until $count jobs have ended and calls $tick meanwhile. False if they have not ended within $seconds. */
    public function await(int $count, float $seconds, ?callable $tick = null): bool
    {
        $deadline = microtime(true) + $seconds;
        while ($this->read()->ended() < $count) {
            if (microtime(true) > $deadline) {
                return false;
            }
            $tick === null ? usleep(2000) : $tick();
        }

        return true;
    }

    /** Jobs per second between the first start and the last end. */
    public function throughput(): float
    {
        return $this->ended() / max(1e-9, ($this->lastEnd - $this->firstRun) / 1e9);
    }
}
