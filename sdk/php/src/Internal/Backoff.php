<?php

declare(strict_types=1);

namespace Stoker\Internal;

/** The pause before the next attempt to connect. @internal */
final class Backoff
{
    /** Limits of the pause after the first failure and after many, in seconds. */
    private const FIRST = 0.1;
    private const LAST = 5.0;

    /**
     * A random pause of 0 seconds to a limit that doubles with every failure. Because it is random from 0 on, many
     * processes that lost their server at the same time spread their attempts evenly.
     *
     * @param int $failures number of failures so far, from 1
     * @return float seconds
     */
    public static function seconds(int $failures): float
    {
        return min(self::LAST, self::FIRST * 2 ** min($failures - 1, 10)) * random_int(0, 1_000_000) / 1e6;
    }
}
