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
            throw new InvalidRequest("empty filter: use ['all' => true] to select all jobs");
        }

        if (array_key_exists('all', $which)) {
            if ($which !== ['all' => true]) {
                throw new InvalidRequest("'all' cannot be combined with other filters, and must be true");
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
        $fields = [];
        foreach ($filter as $key => $value) {
            if ($key === 'older' && (is_int($value) || is_float($value))) {
                $fields['older_ms'] = Limits::ms('older', $value, 0, PHP_INT_MAX);
            } elseif ($key === 'state' && !in_array($value, self::STATES, true)) {
                throw new InvalidRequest('invalid state ' . json_encode($value) . ' in a filter: expected one of ' . implode(', ', self::STATES));
            } elseif (in_array($key, self::KEYS, true) && is_string($value) && $value !== '') {
                $fields[$key] = $value;
            } elseif ($key === 'older' || in_array($key, self::KEYS, true)) {
                $expected = $key === 'older' ? 'a number of seconds' : 'a non-empty string';
                throw new InvalidRequest("invalid $key in a filter: expected $expected, got " . json_encode($value));
            } else {
                throw new InvalidRequest("unknown filter \"$key\": expected one of " . implode(', ', self::KEYS) . ', older');
            }
        }

        return $fields;
    }
}
