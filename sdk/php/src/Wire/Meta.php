<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Metadata: a sequence of entries of key, length and bytes. See docs/reference/protocol.md, section 4. */
final class Meta
{
    /**
     * @param array<int, string> $entries values by key; the order is kept
     * @throws WireError a key is outside 1 to 254, or the metadata is longer than 65535 bytes
     */
    public static function encode(array $entries): string
    {
        $meta = '';
        foreach ($entries as $key => $value) {
            if ($key < 1 || $key > 254) {
                throw new WireError("invalid metadata key $key: expected 1 to 254");
            }
            $length = strlen($value);
            $meta .= chr($key) . ($length < 255 ? chr($length) : pack('Cn', 255, min($length, 0xFFFF))) . $value;
        }
        if (strlen($meta) > 0xFFFF) {
            throw new WireError('the metadata has ' . strlen($meta) . ' bytes, the maximum is 65535');
        }

        return $meta;
    }

    /**
     * @return array<int, string> values by key
     * @throws WireError an entry is longer than the metadata, or a key is 0, 255 or duplicate
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
                throw new WireError('a metadata entry exceeds the metadata');
            }
            if ($key === 0 || $key === 255 || isset($entries[$key])) {
                throw new WireError(isset($entries[$key]) ? "duplicate metadata key $key" : "invalid metadata key $key: expected 1 to 254");
            }
            $entries[$key] = substr($meta, $at, $length);
            $at += $length;
        }

        return $entries;
    }

    /** Whether there is an entry with this key. Stops at the entry, and does not check the lengths. */
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

    /** The first key that is neither known to this version nor reserved for applications; null if there is none. */
    public static function unknown(string $meta): ?int
    {
        foreach (self::decode($meta) as $key => $_) {
            if ($key > Key::LAST && $key < Key::YOURS) {
                return $key;
            }
        }

        return null;
    }

    /** Formats a UUID of 16 bytes as text. */
    public static function uuid(string $bytes): string
    {
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($bytes), 4));
    }

    /** Encodes a number as 4 bytes, limited to 0 to 4294967295. */
    public static function u32(int $value): string
    {
        return pack('N', max(0, min($value, 0xFFFFFFFF)));
    }

    /** Decodes a number of 1, 2, 4 or 8 bytes; null for null and for any other length. */
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
