<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use function strpbrk;
use function strspn;

/** Checks the header fields of responses, so that no value can add a field or end the header. @internal */
final class ResponseHeaders
{
    private const TOKEN = '!#$%&\'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz';

    /**
     * A name in lower case.
     *
     * @throws \InvalidArgumentException it is not a token
     */
    public static function name(string $name): string
    {
        $lower = strtolower($name);
        if ($lower === '' || strspn($lower, self::TOKEN) !== strlen($lower)) {
            throw new \InvalidArgumentException('invalid name of a response header ' . self::show($name) . ': expected a token, such as "content-type"');
        }

        return $lower;
    }

    /** @throws \InvalidArgumentException the value has a line break or a NUL */
    public static function value(string $name, string $value): string
    {
        if (strpbrk($value, "\r\n\0") !== false) {
            throw new \InvalidArgumentException("invalid value of the response header $name: " . self::show($value) . ' has a line break or a NUL');
        }

        return $value;
    }

    private static function show(string $text): string
    {
        return (string) json_encode(substr($text, 0, 100), JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES);
    }
}
