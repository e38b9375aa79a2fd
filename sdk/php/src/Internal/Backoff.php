<?php

declare(strict_types=1);

namespace Stoker\Internal;

/** The pause before the next attempt to connect. @internal */
final class Backoff
{
    /** Maximum pause after the first failure and after many failures, in seconds. */
    private const FIRST = 0.1;
    private const LAST = 5.0;

    /**
     * A random pause between 0 and a maximum that doubles with every failure (full jitter). Many processes that have lost
     * the same server at the same time thus spread their attempts evenly.
     *
     * @param int $failures number of failures so far, from 1
     * @return float seconds
     */
    public static function seconds(int $failures): float
    {
        return min(self::LAST, self::FIRST * 2 ** min($failures - 1, 10)) * random_int(0, 1_000_000) / 1e6;
    }
}
