<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

/** Builds `set-cookie` values. @internal */
final class Cookie
{
    /** @throws \InvalidArgumentException the name or an attribute has characters that are not allowed in it */
    public static function line(
        string $name,
        string $value,
        int $expires,
        string $path,
        string $domain,
        bool $secure,
        bool $httpOnly,
        string $sameSite,
    ): string {
        if ($name === '' || strpbrk($name, "=,; \t\r\n\v\f\0") !== false) {
            throw new \InvalidArgumentException('invalid name of a cookie: it is empty, or has one of = , ; or white space');
        }
        if (strpbrk($path . $domain . $sameSite, ",; \t\r\n\v\f\0") !== false) {
            throw new \InvalidArgumentException("invalid path, domain or sameSite of the cookie $name: it has one of , ; or white space");
        }
        $line = $name . '=' . rawurlencode($value);
        if ($expires !== 0) {
            $line .= '; expires=' . gmdate('D, d M Y H:i:s \G\M\T', $expires) . '; max-age=' . max(0, $expires - time());
        }

        return $line
            . ($path === '' ? '' : "; path=$path")
            . ($domain === '' ? '' : "; domain=$domain")
            . ($secure ? '; secure' : '')
            . ($httpOnly ? '; httponly' : '')
            . ($sameSite === '' ? '' : "; samesite=$sameSite");
    }
}
