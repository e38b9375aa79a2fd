<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Encodings of a body: docs/reference/protocol.md, section 3. The server passes bodies on without reading them. */
final class Codec
{
    public const RAW = 0;
    public const JSON = 1;
    public const PROTOBUF = 2;
    public const MSGPACK = 3;
    public const PHP = 4;
    public const HTTP = 5;

    private const JSON_FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION;

    /** @throws \JsonException the value cannot be encoded as JSON */
    public static function json(mixed $value): string
    {
        return json_encode($value, self::JSON_FLAGS);
    }

    /**
     * Encodes a value as a body: a string unchanged, everything else as JSON.
     *
     * @return array{int, string} codec and body
     * @throws \JsonException the value cannot be encoded as JSON
     */
    public static function encode(mixed $value): array
    {
        return is_string($value) ? [self::RAW, $value] : [self::JSON, self::json($value)];
    }

    /**
     * Decodes a body: JSON to a value with objects as arrays; with any other codec the bytes are returned unchanged.
     *
     * @throws \JsonException the codec is JSON, but the body is not valid JSON
     */
    public static function decode(int $codec, string $body): mixed
    {
        return $codec === self::JSON ? json_decode($body, true, 512, JSON_THROW_ON_ERROR) : $body;
    }
}
