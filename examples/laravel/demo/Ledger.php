<?php

namespace Demo;

/** Reads the application's ledger as it grows. */
final class Ledger
{
    /** @var array<string, array<int, int>> runs of each job, by class and number */
    public array $runs = [];
    /** @var array<string, array<int, int>> */
    public array $done = [];
    /** @var array<string, array<int, int>> */
    public array $failed = [];
    /** @var list<int> nanoseconds from due to started, first runs only */
    public array $waits = [];
    public int $firstRun = PHP_INT_MAX;
    public int $lastEnd = 0;

    /** @var resource */
    private $file;
    private string $partial = '';

    public function __construct(string $path)
    {
        touch($path);
        $this->file = fopen($path, 'r');
    }

    /** Takes in what was written since the last call. */
    public function read(): self
    {
        $lines = explode("\n", $this->partial . stream_get_contents($this->file));
        $this->partial = array_pop($lines);
        foreach ($lines as $line) {
            [$event, $class, $number, $attempt, $waited, $at] = explode("\t", $line);
            $job = class_basename($class);
            if ($event === 'run') {
                $this->runs[$job][$number] = ($this->runs[$job][$number] ?? 0) + 1;
                $this->firstRun = min($this->firstRun, (int) $at);
                if ($attempt === '1' && $this->runs[$job][$number] === 1) {
                    $this->waits[] = (int) $waited;
                }
            } else {
                $this->{$event}[$job][$number] = ($this->{$event}[$job][$number] ?? 0) + 1;
                $this->lastEnd = max($this->lastEnd, (int) $at);
            }
        }

        return $this;
    }

    /** Jobs that have reached an end, whichever. */
    public function ended(): int
    {
        $ended = 0;
        foreach (array_keys($this->done + $this->failed) as $job) {
            $ended += count(($this->done[$job] ?? []) + ($this->failed[$job] ?? []));
        }

        return $ended;
    }

    /** Waits until $count jobs have ended; false when $seconds were not enough. */
    public function await(int $count, float $seconds, ?callable $tick = null): bool
    {
        $deadline = microtime(true) + $seconds;
        while ($this->read()->ended() < $count) {
            if (microtime(true) > $deadline) {
                return false;
            }
            $tick ? $tick($this) : null;
            usleep(2000);
        }

        return true;
    }

    /** Jobs per second between the first start and the last end. */
    public function throughput(): float
    {
        return $this->ended() / max(1e-9, ($this->lastEnd - $this->firstRun) / 1e9);
    }
}
