<?php

namespace Demo;

/** Columns as wide as what stands in them; the first to the left, the others to the right. */
final class Table
{
    /** @param list<list<string>> $rows the first is the heading */
    public static function render(array $rows): string
    {
        $widths = array_map(static fn (int $column) => max(array_map(
            static fn (array $row) => mb_strlen($row[$column] ?? ''),
            $rows,
        )), array_keys($rows[0]));

        $lines = array_map(static fn (array $row) => rtrim(implode('  ', array_map(
            static function (int $column) use ($row, $widths) {
                $gap = str_repeat(' ', $widths[$column] - mb_strlen($row[$column] ?? ''));

                return $column === 0 ? ($row[$column] ?? '') . $gap : $gap . ($row[$column] ?? '');
            },
            array_keys($widths),
        ))), $rows);
        array_splice($lines, 1, 0, str_repeat('-', array_sum($widths) + 2 * (count($widths) - 1)));

        return implode("\n", $lines) . "\n";
    }
}
