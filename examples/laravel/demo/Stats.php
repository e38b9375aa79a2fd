<?php

namespace Demo;

final class Stats
{
    /** @param list<int|float> $values */
    public static function percentile(array $values, float $percent): float
    {
        if ($values === []) {
            return NAN;
        }
        sort($values);

        return $values[max(0, (int) ceil($percent / 100 * count($values)) - 1)];
    }

    /** @param list<int> $nanoseconds */
    public static function milliseconds(array $nanoseconds, float $percent): string
    {
        return self::number(self::percentile($nanoseconds, $percent) / 1e6) . ' ms';
    }

    /** Formats a number with about three significant digits. */
    public static function number(float $value): string
    {
        return number_format($value, $value >= 100 ? 0 : ($value >= 10 ? 1 : 2));
    }
}
