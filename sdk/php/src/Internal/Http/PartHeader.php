<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\BadRequest;

/** The header of one part of a multipart/form-data body. @internal */
final class PartHeader
{
    /**
     * @param string      $name     name of the field
     * @param string|null $fileName as the client sent it, possibly with a path; null: the part is a field, not a file
     * @param string      $type     media type that the client claims, '' = none
     */
    private function __construct(public readonly string $name, public readonly ?string $fileName, public readonly string $type)
    {
    }

    /** @throws BadRequest the header is malformed, or names no field */
    public static function parse(string $header): self
    {
        $fields = [];
        foreach (explode("\r\n", $header) as $line) {
            if (!str_contains($line, ':')) {
                throw new BadRequest('invalid multipart body: a part has a malformed header field');
            }
            [$name, $value] = explode(':', $line, 2);
            $fields[strtolower($name)] ??= trim($value, " \t");
        }
        $disposition = $fields['content-disposition'] ?? '';
        if (strncasecmp($disposition, 'form-data', 9) !== 0 || ($name = self::parameter($disposition, 'name') ?? '') === '') {
            throw new BadRequest('invalid multipart body: a part has no content-disposition of type form-data with a name');
        }

        return new self($name, self::parameter($disposition, 'filename'), $fields['content-type'] ?? '');
    }

    /** A parameter of a field's value, without its quotes; null if it is missing. */
    public static function parameter(string $value, string $name): ?string
    {
        // All parameters are matched, because a quoted value before this one may contain a semicolon.
        preg_match_all('/;\s*([^;="\s]+)\s*=\s*(?:"((?:[^"\\\\]|\\\\.)*+)"|([^;"]*+))/s', $value, $found, PREG_SET_ORDER | PREG_UNMATCHED_AS_NULL);
        foreach ($found as [, $one, $quoted, $plain]) {
            if (strcasecmp($one, $name) === 0) {
                // Clients escape a quote, but leave the backslashes of a Windows path alone.
                return $quoted === null ? rtrim((string) $plain) : strtr($quoted, ['\\"' => '"', '\\\\' => '\\']);
            }
        }

        return null;
    }
}
