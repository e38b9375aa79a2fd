<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\InvalidRequest;

/** Builds the part of a request that selects jobs. Rejects invalid filters before they are sent. @internal */
final class Selection
{
    private const STATES = ['ready', 'running', 'delayed', 'retrying', 'suspended', 'done', 'failed', 'cancelled'];
    private const KEYS = ['queue', 'state', 'type', 'error', 'fingerprint', 'key'];

    /**
     * @param string|array<string, mixed> $which an id, a filter, or ['all' => true]
     * @return array<string, mixed> fields of the request
     * @throws InvalidRequest
     */
    public static function of(string|array $which): array
    {
        if (is_string($which)) {
            return ['id' => $which];
        }
        if ($which === []) {
            throw new InvalidRequest("an empty filter: for all jobs write ['all' => true]");
        }

        if (array_key_exists('all', $which)) {
            if ($which !== ['all' => true]) {
                throw new InvalidRequest("'all' stands alone, as ['all' => true]");
            }

            return $which;
        }

        return self::filter($which);
    }

    /**
     * @param array<string, mixed> $filter see Client::jobs()
     * @return array<string, mixed> fields of the request
     * @throws InvalidRequest
     */
    public static function filter(array $filter): array
    {
        $ask = [];
        foreach ($filter as $key => $value) {
            if ($key === 'older' && (is_int($value) || is_float($value))) {
                $ask['older_ms'] = Limits::ms('older', $value, 0, PHP_INT_MAX);
            } elseif ($key === 'state' && !in_array($value, self::STATES, true)) {
                throw new InvalidRequest('invalid state ' . json_encode($value) . ' in a filter: expected one of ' . implode(', ', self::STATES));
            } elseif (in_array($key, self::KEYS, true) && is_string($value) && $value !== '') {
                $ask[$key] = $value;
            } elseif ($key === 'older' || in_array($key, self::KEYS, true)) {
                $expected = $key === 'older' ? 'a number of seconds' : 'a text that is not empty';
                throw new InvalidRequest("invalid $key in a filter: expected $expected, got " . json_encode($value));
            } else {
                throw new InvalidRequest("unknown filter \"$key\": expected older (seconds), or as text " . implode(', ', self::KEYS));
            }
        }

        return $ask;
    }
}
