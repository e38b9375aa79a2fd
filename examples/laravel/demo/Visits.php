<?php

namespace Demo;

/** What became of the requests of some visitors. */
final class Visits
{
    public int $answered = 0;
    /** Requests whose connection was reset, and which were sent once more. */
    public int $again = 0;
    public int $refused = 0;
    public int $failed = 0;
    public float $seconds = NAN;
    /** @var list<int> nanoseconds from a request to its answer */
    public array $times = [];

    public const HEADINGS = ['answered', 'sent again', 'refused', 'failed', 'per second', 'p50 ms', 'p99 ms'];

    /** @return list<int|float> */
    public function row(): array
    {
        return [
            $this->answered,
            $this->again,
            $this->refused,
            $this->failed,
            $this->answered / $this->seconds,
            Stats::percentile($this->times, 50) / 1e6,
            Stats::percentile($this->times, 99) / 1e6,
        ];
    }
}
