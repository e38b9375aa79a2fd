<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\BadRequest;

/** Limits of PHP's configuration for request bodies. @internal */
final class BodyLimits
{
    /** The bytes of a setting such as "8M"; 0 = no limit. */
    public static function fromIni(string $setting): int
    {
        $text = trim((string) ini_get($setting));
        $unit = ['k' => 1 << 10, 'm' => 1 << 20, 'g' => 1 << 30][strtolower(substr($text, -1))] ?? 1;

        return max(0, (int) $text * $unit);
    }

    /** @throws BadRequest a form whose values have so many bytes exceeds `post_max_size` */
    public static function checkFormSize(int $bytes): void
    {
        $limit = self::fromIni('post_max_size');
        if ($limit > 0 && $bytes > $limit) {
            throw new BadRequest("the form exceeds $limit bytes (post_max_size)", 413);
        }
    }
}
