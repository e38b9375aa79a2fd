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
        $stream = ctype_digit($fd) ? @fopen("php://fd/$fd", 'r+') : false;
        if ($stream === false) {
            throw new ConnectionRefused("STOKER_FD is \"$fd\", which is not an open descriptor of this process");
        }

        return self::configure($stream);
    }

    /**
     * Opens the connection of a worker: the inherited socket if Stoker started this process, else a new connection.
     *
     * @param array<string, mixed> $hello fields of HELLO; pool and token are added for a new connection
     * @param string|null $socket path of the server's socket; default: env STOKER_SOCKET
     * @param string|null $pool   the pool to join over a new connection; default: env STOKER_POOL
     * @param string|null $token  token of that pool; default: env STOKER_TOKEN
     * @return array{resource, string, bool} the stream, the body of HELLO, and whether the socket was inherited
     * @throws ConnectionRefused
     */
    public static function ofWorker(array $hello, ?string $socket, ?string $pool, ?string $token): array
    {
        $fd = getenv('STOKER_FD');
        $isSpawned = $fd !== false;
        if ($isSpawned) {
            $stream = self::inherited($fd);
            // Hide the descriptor from children of this process and from other code that reads the environment.
            putenv('STOKER_FD');
            unset($_ENV['STOKER_FD'], $_SERVER['STOKER_FD']);
        } else {
            $socket ??= getenv('STOKER_SOCKET') ?: null;
            if ($socket === null) {
                throw new ConnectionRefused('neither STOKER_FD nor STOKER_SOCKET is set: let `stoker serve` start this script, or set STOKER_SOCKET');
            }
            $stream = self::dial($socket, 5.0);
            $hello += array_filter(['pool' => $pool ?? getenv('STOKER_POOL'), 'token' => $token ?? getenv('STOKER_TOKEN')]);
        }

        return [$stream, json_encode($hello, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE), $isSpawned];
    }

    /**
     * Connects to a server.
     *
     * @param string $socket path of a unix socket, or a PHP stream address such as tcp://127.0.0.1:7000
     * @param float $timeout seconds
     * @return resource
     * @throws ConnectionRefused
     */
    public static function dial(string $socket, float $timeout, bool $persistent = false)
    {
        $address = str_contains($socket, '://') ? $socket : "unix://$socket";
        $flags = STREAM_CLIENT_CONNECT | ($persistent ? STREAM_CLIENT_PERSISTENT : 0);
        // Silence warnings by a handler of our own: with @, an application's handler is still called and might throw.
        set_error_handler(static fn (): bool => true);
        try {
            $stream = stream_socket_client($address, $errno, $why, $timeout, $flags);
            $access = $stream === false && $errno === self::EACCES ? self::describeAccess($socket) : null;
        } finally {
            restore_error_handler();
        }
        if ($access !== null) {
            throw new ConnectionRefused("permission denied for Stoker's socket $socket ($why): $access");
        }
        if ($stream === false) {
            throw new ConnectionRefused(
                "cannot connect to Stoker at $socket" . ($why !== '' ? " ($why)" : '')
                . ': is `stoker serve` running? If so, check STOKER_SOCKET or the path passed to connect()',
            );
        }

        return self::configure($stream);
    }

    /** Describes who may open the socket, for the error message to a user who may not. */
    private static function describeAccess(string $socket): string
    {
        $path = str_replace('unix://', '', $socket);
        clearstatcache(true, $path);
        if (($stat = stat($path)) === false) {
            return 'this user may not enter a directory of its path';
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
