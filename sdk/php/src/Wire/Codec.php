<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** How a body is written: docs/reference/protocol.md, section 3. The broker passes bodies on unread. */
final class Codec
{
    public const RAW = 0;
    public const JSON = 1;
    public const PROTOBUF = 2;
    public const MSGPACK = 3;
    public const PHP = 4;

    private const JSON_FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION;

    /** @throws \JsonException the value has no JSON form */
    public static function json(mixed $value): string
    {
        return json_encode($value, self::JSON_FLAGS);
    }

    /**
     * A string travels as it is, anything else as JSON.
     *
     * @return array{int, string} codec and body
     * @throws \JsonException the value has no JSON form
     */
    public static function encode(mixed $value): array
    {
        return is_string($value) ? [self::RAW, $value] : [self::JSON, self::json($value)];
    }

    /**
     * JSON becomes arrays and scalars; every other codec comes back as the bytes it is.
     *
     * @throws \JsonException the body is not the JSON that it claims to be
     */
    public static function decode(int $codec, string $body): mixed
    {
        return $codec === self::JSON ? json_decode($body, true, 512, JSON_THROW_ON_ERROR) : $body;
    }
}
