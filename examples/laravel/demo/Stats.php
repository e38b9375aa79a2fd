<?php

namespace Demo;

final class Stats
{
    /** @param list<int|float> $values */
    public static function percentile(array $values, float $percent): ?float
    {
        if ($values === []) {
            return null;
        }
        sort($values);

        return $values[(int) min(count($values) - 1, ceil($percent / 100 * count($values)) - 1)];
    }

    /** @param list<int> $nanoseconds */
    public static function milliseconds(array $nanoseconds, float $percent): string
    {
        $value = self::percentile($nanoseconds, $percent);

        return $value === null ? '-' : self::number($value / 1e6) . ' ms';
    }

    /** As many digits as are worth reading. */
    public static function number(float $value): string
    {
        return number_format($value, $value >= 100 ? 0 : ($value >= 10 ? 1 : 2));
    }
}
