<?php

namespace Demo;

/** Formats a table. Columns are as wide as their content; the first is left-aligned, the others are right-aligned. */
final class Table
{
    /** @param non-empty-list<list<string|int|float>> $rows the first row is the heading and has all columns */
    public static function render(array $rows): string
    {
        $rows = array_map(static fn (array $row) => array_map(self::text(...), $row), $rows);
        $widths = array_map(
            static fn (int $column) => max(array_map('strlen', array_column($rows, $column))),
            array_keys($rows[0]),
        );
        $lines = array_map(static function (array $row) use ($widths): string {
            foreach ($row as $column => $text) {
                $row[$column] = str_pad($text, $widths[$column], ' ', $column === 0 ? STR_PAD_RIGHT : STR_PAD_LEFT);
            }

            return rtrim(implode('  ', $row));
        }, $rows);
        array_splice($lines, 1, 0, str_repeat('-', array_sum($widths) + 2 * (count($widths) - 1)));

        return implode("\n", $lines) . "\n";
    }

    private static function text(string|int|float $value): string
    {
        return match (true) {
            is_int($value) => number_format($value),
            is_float($value) => Stats::number($value),
            default => $value,
        };
    }
}
