<?php

namespace Demo;

/** Reads what is added to the application's ledger from now on. The lists are named after the events that fill them. */
final class Ledger
{
    /** @var array<string, array<int, int>> by class and number of the job: its runs */
    public array $run = [];
    /** @var array<string, array<int, int>> of those, the ones after its code had asked for another */
    public array $retries = [];
    /** @var array<string, array<int, int>> how often it reached its end */
    public array $done = [];
    /** @var array<string, array<int, int>> how often its failed() was called */
    public array $failed = [];
    /** @var list<int> nanoseconds from due to started, first runs only */
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

    /** Takes in what was written since the last call. */
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
                // Killed after the work and before the answer, a job may end twice. It counts once.
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

    /** Jobs that have reached an end, whichever. */
    public function ended(): int
    {
        return $this->ended;
    }

    /** Waits until $count jobs have ended, meanwhile calling $tick; false when $seconds were not enough. */
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
