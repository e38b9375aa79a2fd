<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Metadata: a run of `key (1), length (1), bytes`; docs/reference/protocol.md, section 4. */
final class Meta
{
    /**
     * @param array<int, string> $entries by key; the order is kept
     * @throws WireError a key or a length that the wire can't carry
     */
    public static function encode(array $entries): string
    {
        $meta = '';
        foreach ($entries as $key => $value) {
            if ($key < 1 || $key > 254) {
                throw new WireError("metadata key $key is outside 1 to 254");
            }
            $length = strlen($value);
            $meta .= chr($key) . ($length < 255 ? chr($length) : pack('Cn', 255, min($length, 0xFFFF))) . $value;
        }
        if (strlen($meta) > 0xFFFF) {
            throw new WireError('metadata of ' . strlen($meta) . ' bytes; 65535 is the most');
        }

        return $meta;
    }

    /**
     * @return array<int, string> by key
     * @throws WireError an entry runs over the end, or a key is 0, 255 or given twice
     */
    public static function decode(string $meta): array
    {
        $entries = [];
        for ($at = 0, $end = strlen($meta); $at < $end;) {
            $key = ord($meta[$at]);
            $length = $at + 1 < $end ? ord($meta[$at + 1]) : $end;
            $at += 2;
            if ($length === 255) {
                $length = $at + 2 <= $end ? unpack('n', $meta, $at)[1] : $end;
                $at += 2;
            }
            if ($at + $length > $end) {
                throw new WireError('metadata runs over its end');
            }
            if ($key === 0 || $key === 255 || isset($entries[$key])) {
                throw new WireError("metadata key $key " . (isset($entries[$key]) ? 'stands twice' : 'is not a key'));
            }
            $entries[$key] = substr($meta, $at, $length);
            $at += $length;
        }

        return $entries;
    }

    /** Whether there is an entry of this key. Reads no further than to it, and trusts the lengths. */
    public static function has(string $meta, int $key): bool
    {
        for ($at = 0, $end = strlen($meta); $at + 1 < $end;) {
            if (ord($meta[$at]) === $key) {
                return true;
            }
            $length = ord($meta[$at + 1]);
            $at += $length < 255 ? 2 + $length : ($at + 4 <= $end ? 4 + unpack('n', $meta, $at + 2)[1] : $end);
        }

        return false;
    }

    /** The first key that neither this version nor the application can know, or null. */
    public static function unknown(string $meta): ?int
    {
        foreach (self::decode($meta) as $key => $_) {
            if ($key > Key::LAST && $key < Key::YOURS) {
                return $key;
            }
        }

        return null;
    }

    /** A UUID of 16 bytes as text. */
    public static function uuid(string $bytes): string
    {
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($bytes), 4));
    }

    public static function u32(int $value): string
    {
        return pack('N', max(0, min($value, 0xFFFFFFFF)));
    }

    /** The number in a 1, 2, 4 or 8 byte entry; null when there is none, or one of another width. */
    public static function int(?string $bytes): ?int
    {
        return match (strlen($bytes ?? '')) {
            1 => ord($bytes),
            2 => unpack('n', $bytes)[1],
            4 => unpack('N', $bytes)[1],
            8 => unpack('J', $bytes)[1],
            default => null,
        };
    }
}
