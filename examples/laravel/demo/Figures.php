<?php

namespace Demo;

/** The measurements of one contender, which are taken in the same way for each of them. */
final class Figures
{
    public float $pushed = NAN;
    public float $throughput = NAN;
    /** @var list<int> nanoseconds that each job waited for its start */
    public array $waits = [];

    public function __construct(
        public readonly string $name,
        public readonly string $how,
        public readonly string $store,
        public int $jobs,
    ) {
    }

    /** @param list<self> $contenders */
    public static function table(array $contenders): string
    {
        $row = static fn (string $title, callable $cell) => [$title, ...array_map($cell, $contenders)];

        return Table::render([
            $row('hello jobs', static fn (self $it) => $it->name),
            $row('', static fn (self $it) => $it->how),
            $row('jobs are kept in', static fn (self $it) => $it->store),
            $row('pushed per second', static fn (self $it) => $it->pushed),
            $row('run per second, from a full queue', static fn (self $it) => $it->throughput),
            $row('  number of measurements', static fn (self $it) => $it->jobs),
            $row('idle: from push to start, p50 in ms', static fn (self $it) => Stats::percentile($it->waits, 50) / 1e6),
            $row('                          p99 in ms', static fn (self $it) => Stats::percentile($it->waits, 99) / 1e6),
            $row('  number of measurements', static fn (self $it) => count($it->waits)),
        ]);
    }
}
