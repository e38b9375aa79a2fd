<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionRefused;

/** Opens connections to the server, with the stream settings that this SDK relies on. @internal */
final class Socket
{
    /**
     * Bytes per read. The stream's chunk size must be equal to it: if fread() is asked for more or fewer bytes than
     * the chunk size, it can block although bytes are available.
     */
    public const CHUNK = 65536;
    private const EACCES = 13;

    /**
     * Opens the socket that a worker inherits from Stoker.
     *
     * @param string $fd number of the descriptor, from STOKER_FD
     * @return resource
     * @throws ConnectionRefused
     */
    public static function inherited(string $fd)
    {
        $stream = preg_match('/^\d+$/D', $fd) === 1 ? @fopen("php://fd/$fd", 'r+') : false;
        if ($stream === false) {
            throw new ConnectionRefused("STOKER_FD is \"$fd\", which is not an open descriptor of this process");
        }

        return self::configure($stream);
    }

    /**
     * Uses a socket that a zygote has received from Stoker.
     *
     * @return resource
     */
    public static function adopted(\Socket $socket)
    {
        return self::configure(socket_export_stream($socket));
    }

    /**
     * Connects to a server.
     *
     * @param float $timeout seconds, including the TLS handshake but not the lookup of the host's name
     * @param bool $persistent reuse the connection of an earlier script of this process
     * @param ?string $token sent to a remote server in HELLO; only connections with the same token are reused
     * @return resource
     * @throws ConnectionRefused
     */
    public static function dial(Address $address, float $timeout, bool $persistent = false, ?string $token = null)
    {
        if ($address->isRemote()) {
            return self::configure(self::dialRemote($address, $timeout, $persistent, $token));
        }
        $flags = STREAM_CLIENT_CONNECT | ($persistent ? STREAM_CLIENT_PERSISTENT : 0);
        // Silence warnings by a handler of our own: with @, an application's handler is still called and might throw.
        set_error_handler(static fn (): bool => true);
        try {
            $stream = stream_socket_client("unix://{$address->target}", $errno, $why, $timeout, $flags);
            $access = $stream === false && $errno === self::EACCES ? self::describeAccess($address->target) : null;
        } finally {
            restore_error_handler();
        }
        if ($access !== null) {
            throw new ConnectionRefused("permission denied for Stoker's socket {$address->text} ($why): $access");
        }
        if ($stream === false) {
            throw new ConnectionRefused(
                "cannot connect to Stoker at {$address->text}" . ($why !== '' ? " ($why)" : '')
                . ': is `stoker serve` running? If so, check STOKER_SOCKET or the path passed to connect()',
            );
        }

        return self::configure($stream);
    }

    /**
     * @return resource
     * @throws ConnectionRefused
     */
    private static function dialRemote(Address $address, float $timeout, bool $persistent, ?string $token)
    {
        $until = hrtime(true) + (int) ($timeout * 1e9);
        $isTls = $address->scheme === 'tls';
        $options = ['socket' => ['tcp_nodelay' => true]] + ($isTls ? ['ssl' => Tls::options($address)] : []);
        // PHP reuses a persistent connection for the same address. It ignores what follows the port, which is used here
        // to keep connections of other tokens and certificates apart.
        $suffix = $persistent ? '/' . hash('sha256', serialize([$address->scheme, $address->tls, $token])) : '';
        $flags = STREAM_CLIENT_CONNECT | ($persistent ? STREAM_CLIENT_PERSISTENT : 0);
        set_error_handler(static fn (): bool => true);
        try {
            $stream = stream_socket_client("tcp://{$address->target}$suffix", $errno, $why, $timeout, $flags, stream_context_create($options));
        } finally {
            restore_error_handler();
        }
        if ($stream === false) {
            throw new ConnectionRefused(
                "cannot connect to Stoker at {$address->text}" . ($why !== '' ? " ($why)" : '')
                . ': is the server running, and is its port reachable from this machine?',
            );
        }
        $isTls && Tls::start($stream, $address, $until);

        return $stream;
    }

    /** Describes who may open the socket, for the error message to a user who is not permitted to. */
    private static function describeAccess(string $path): string
    {
        clearstatcache(true, $path);
        if (($stat = stat($path)) === false) {
            return 'this user has no permission to search a directory of its path';
        }
        $user = function_exists('posix_getpwuid') ? posix_getpwuid($stat['uid'])['name'] ?? null : null;
        $group = function_exists('posix_getgrgid') ? posix_getgrgid($stat['gid'])['name'] ?? null : null;

        return sprintf(
            'it belongs to user %s and group %s, with mode %04o; the server\'s configuration sets these as socket_group and socket_mode of [stoker]',
            $user ?? $stat['uid'],
            $group ?? $stat['gid'],
            $stat['mode'] & 0777,
        );
    }

    /**
     * @param resource $stream
     * @return resource
     */
    private static function configure($stream)
    {
        // With the default timeout of 60 s, fread() on an idle connection returns false, as at the end of the
        // connection.
        stream_set_timeout($stream, -1);
        stream_set_chunk_size($stream, self::CHUNK);

        return $stream;
    }
}
