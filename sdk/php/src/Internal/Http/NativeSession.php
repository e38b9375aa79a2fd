<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

/**
 * Keeps the sessions of PHP's session extension apart, which expects one request per process, and makes their cookies,
 * which PHP does not record on the command line.
 *
 * @internal
 */
final class NativeSession
{
    /** The session's id according to the request. */
    private static string $sent = '';

    /** @param array<array-key, mixed> $cookies of the request whose handler begins */
    public static function begin(array $cookies): void
    {
        if (!function_exists('session_id')) {
            return;
        }
        self::end();
        $id = $cookies[session_name()] ?? '';
        self::$sent = is_string($id) && preg_match('/^[A-Za-z0-9,-]{1,256}$/D', $id) ? $id : '';
        // PHP reads the cookie only for the first session of a process. It warns if something was printed before, but
        // then no session can be started either.
        @session_id(self::$sent);
    }

    /** The `set-cookie` value for the session that the handler has opened; null if the client has it already. */
    public static function cookie(): ?string
    {
        $id = function_exists('session_id') && ini_get('session.use_cookies') ? (string) session_id() : '';
        if ($id === '' || $id === self::$sent) {
            return null;
        }
        $p = session_get_cookie_params();
        $expires = $p['lifetime'] > 0 ? time() + $p['lifetime'] : 0;

        return Cookie::line(session_name(), $id, $expires, $p['path'], $p['domain'], $p['secure'], $p['httponly'], $p['samesite']);
    }

    /** Closes the session, if one is open, and forgets its id and its data. */
    public static function end(): void
    {
        if (function_exists('session_status')) {
            session_status() !== PHP_SESSION_ACTIVE || session_write_close();
            session_id() === '' || @session_id('');
        }
        unset($_SESSION);
    }
}
