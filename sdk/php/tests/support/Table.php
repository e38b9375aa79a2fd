<?php

declare(strict_types=1);

namespace Stoker\Tests;

/** One part of sdk/conformance/worker.json, and which of its rows have been used. */
final class Table
{
    /** @var list<array<string, mixed>> */
    public readonly array $rows;
    /** @var array<int, int> how often each row was used */
    public array $used = [];

    public function __construct(string $part)
    {
        static $all;
        $all ??= json_decode(file_get_contents(__DIR__ . '/../../../conformance/worker.json'), true, 512, JSON_THROW_ON_ERROR);
        $this->rows = $all[$part];
    }

    /**
     * The number of the row that applies: the first one for this state and event whose required flags are all set.
     *
     * @param list<string> $flags
     */
    public function find(string $state, string $event, array $flags): ?int
    {
        foreach ($this->rows as $no => $row) {
            if ($row['on'] === $event && in_array($state, $row['in'], true) && array_diff($row['if'] ?? [], $flags) === []) {
                return $no;
            }
        }

        return null;
    }

    /** @return list<string> the rows that have not been used, as JSON */
    public function unused(): array
    {
        $unused = array_diff_key($this->rows, $this->used);

        return array_map(json_encode(...), array_values($unused));
    }
}
