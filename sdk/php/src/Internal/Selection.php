<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\InvalidRequest;

/** Which jobs an operator means. The broker ignores what it does not know, and a typing error must not mean more jobs. @internal */
final class Selection
{
    private const KEYS = ['queue', 'state', 'type', 'error', 'fingerprint', 'key'];

    /**
     * @param string|array<string, mixed> $which an id, a filter, or ['all' => true]
     * @return array<string, mixed> what the broker is asked
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

        return ($which['all'] ?? false) === true && count($which) === 1 ? $which : self::filter($which);
    }

    /**
     * @param array<string, mixed> $filter
     * @return array<string, mixed>
     * @throws InvalidRequest
     */
    public static function filter(array $filter): array
    {
        $ask = [];
        foreach ($filter as $key => $value) {
            if ($key === 'older') {
                $ask['older_ms'] = Limits::ms('older', (float) $value, 0, PHP_INT_MAX);
            } elseif (in_array($key, self::KEYS, true) && is_string($value)) {
                $ask[$key] = $value;
            } else {
                throw new InvalidRequest("a filter has no \"$key\" like this; it may have older (seconds), and as text " . implode(', ', self::KEYS));
            }
        }

        return $ask;
    }
}
