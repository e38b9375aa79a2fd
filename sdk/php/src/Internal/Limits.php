<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\InvalidRequest;

/**
 * Checks the parts of a request before it is sent. The server checks them too, but it closes the connection if a frame
 * is malformed.
 *
 * @internal
 */
final class Limits
{
    private const NAME = '/^[A-Za-z0-9_.:\/@-]{1,255}$/D';
    /** Maximum length of a fairness, unique or idempotency key, in bytes. */
    private const MAX_KEY = 200;

    /** @throws InvalidRequest */
    public static function name(string $name): string
    {
        if (!preg_match(self::NAME, $name)) {
            throw new InvalidRequest("invalid name \"$name\": expected 1 to 255 characters from A-Z a-z 0-9 _ . : / @ -");
        }

        return $name;
    }

    /** @throws InvalidRequest */
    public static function key(string $what, string $key, int $max = self::MAX_KEY): string
    {
        if ($key === '' || strlen($key) > $max) {
            throw new InvalidRequest(sprintf('invalid %s: %d bytes, expected 1 to %d', $what, strlen($key), $max));
        }

        return $key;
    }

    /** @throws InvalidRequest */
    public static function int(string $what, int $value, int $min, int $max, string $unit = ''): int
    {
        if ($value < $min || $value > $max) {
            throw new InvalidRequest("invalid $what $value$unit: expected $min to $max$unit");
        }

        return $value;
    }

    /**
     * Converts a point in time to Unix milliseconds.
     *
     * @param float|\DateTimeInterface $moment a number is Unix time in seconds
     * @throws InvalidRequest
     */
    public static function unixMs(string $what, float|\DateTimeInterface $moment): int
    {
        return $moment instanceof \DateTimeInterface ? max(0, (int) $moment->format('Uv')) : self::ms($what, $moment, 0, PHP_INT_MAX);
    }

    /**
     * Converts seconds to milliseconds, rounded up, and checks that the result is from $min to $max.
     *
     * @throws InvalidRequest
     */
    public static function ms(string $what, float $seconds, int $min = 0, int $max = 0xFFFFFFFF): int
    {
        if (!is_finite($seconds) || $seconds < 0 || $seconds > 1e12) {
            throw new InvalidRequest("invalid $what $seconds seconds: expected 0 to 1e12");
        }

        return self::int($what, (int) ceil($seconds * 1000), $min, $max, ' ms');
    }
}
