<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\BadRequest;

/** Expands names such as "a[b][]" into arrays, as PHP does for $_GET, $_POST and $_COOKIE. @internal */
final class Variables
{
    /** Prefixes with which a browser guarantees where a cookie comes from. */
    private const GUARANTEED = ['__Host-', '__Secure-'];

    /**
     * Variables of an urlencoded string: a query, or the body of a form.
     *
     * @return array<array-key, mixed>
     * @throws BadRequest if there are more than max_input_vars of PHP's configuration
     */
    public static function parse(string $encoded): array
    {
        if ($encoded === '') {
            return [];
        }
        // Above its limit, PHP would drop the rest with a warning, and the application would work with half a form.
        if (substr_count($encoded, '&') >= ($limit = self::limit())) {
            throw new BadRequest("more than $limit variables in a query or a form");
        }
        @parse_str($encoded, $variables);

        return $variables;
    }

    /**
     * Nests values by their names.
     *
     * @param list<array{string, string}> $pairs names and values
     * @return array<array-key, mixed>
     */
    public static function nest(array $pairs): array
    {
        $encoded = '';
        foreach ($pairs as [$name, $value]) {
            $encoded .= '&' . rawurlencode($name) . '=' . rawurlencode($value);
        }

        return self::parse(substr($encoded, 1));
    }

    /**
     * The cookies of a `cookie` field. The first of several with the same name counts, as in PHP.
     *
     * @return array<array-key, mixed>
     */
    public static function cookies(string $field): array
    {
        $cookies = $odd = $seen = [];
        foreach (explode(';', $field, self::limit() + 1) as $one) {
            [$name, $value] = explode('=', ltrim($one), 2) + ['', ''];
            if ($name === '' || isset($seen[$name])) {
                continue;
            }
            $value = rawurldecode($value);
            if (strpbrk($name, '.[ +%') === false) {
                $seen[$name] = true;
                $cookies[$name] = $value;
            } elseif (!self::forges($name)) {
                str_ends_with($name, '[]') || $seen[$name] = true;
                $odd[] = [$name, $value];
            }
        }

        return $odd === [] ? $cookies : $cookies + self::nest($odd);
    }

    /** The maximum number of variables in one request. */
    public static function limit(): int
    {
        return max(1, (int) ini_get('max_input_vars'));
    }

    /** Whether PHP would turn this name into one with a guaranteed prefix, which the browser did not check. */
    private static function forges(string $name): bool
    {
        $first = (string) key(self::nest([[$name, '']]));
        foreach (self::GUARANTEED as $prefix) {
            if (str_starts_with($first, $prefix) && !str_starts_with($name, $prefix)) {
                return true;
            }
        }

        return false;
    }
}
