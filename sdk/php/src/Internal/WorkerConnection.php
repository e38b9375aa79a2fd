<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionRefused;
use Stoker\InvalidRequest;
use Stoker\StokerException;

/**
 * The connection of a worker: the socket that it inherited from Stoker, a unix socket, or a session with a server on
 * another machine.
 *
 * @internal
 */
final class WorkerConnection
{
    /** Time limit for connecting to a unix socket, in seconds. */
    private const TIMEOUT = 5.0;
    /** How long a worker on another machine tries to reconnect by default, in seconds. */
    private const RECONNECT_FOR = 60.0;

    /**
     * @param bool                 $isSpawned whether Stoker started this process
     * @param string               $hello     body of the HELLO to send; '' = HELLO was sent and answered
     * @param array<string, mixed> $welcome   the fields of WELCOME, if there is a session
     */
    private function __construct(
        public readonly Channel $channel,
        public readonly bool $isSpawned,
        public readonly string $hello,
        public readonly ?Session $session = null,
        public readonly array $welcome = [],
    ) {
    }

    /**
     * Uses the inherited socket if Stoker started this process, else connects.
     *
     * @param array<string, mixed> $hello fields of HELLO; pool and token are added for a new connection
     * @param string|null $socket       addresses of the server; default: env STOKER_URL, else STOKER_SOCKET
     * @param string|null $pool         the pool to join over a new connection; default: env STOKER_POOL
     * @param string|null $token        token of that pool or of this machine; default: env STOKER_TOKEN
     * @param float|null  $reconnectFor seconds, over TCP; null = the default
     * @param float       $keepalive    seconds, over TCP; 0 = off
     * @throws ConnectionRefused no server can be reached
     * @throws InvalidRequest    an address is invalid
     * @throws StokerException   over TCP: the server rejected this worker
     */
    public static function open(array $hello, ?string $socket, ?string $pool, ?string $token, ?float $reconnectFor, float $keepalive): self
    {
        if (Zygote::isRequested()) {
            throw new \LogicException('strategy "fork" forks processes in Worker::run(), and this process opens an Inbox: set strategy = "loop" or "spare" in the pool\'s configuration');
        }
        $fd = getenv('STOKER_FD');
        if ($fd !== false) {
            $stream = Socket::inherited($fd);
            // Hide the descriptor from children of this process and from other code that reads the environment.
            putenv('STOKER_FD');
            unset($_ENV['STOKER_FD'], $_SERVER['STOKER_FD']);

            return new self(new Channel($stream), true, self::json($hello));
        }
        Limits::ms('keepalive', $keepalive);
        Limits::ms('reconnectFor', $reconnectFor ?? 0.0);
        $servers = Servers::find($socket) ?? throw new ConnectionRefused(
            'none of STOKER_FD, STOKER_URL and STOKER_SOCKET is set: let `stoker serve` start this script, or set STOKER_URL or STOKER_SOCKET',
        );
        $hello += array_filter(['pool' => $pool ?? getenv('STOKER_POOL'), 'token' => $token ?? getenv('STOKER_TOKEN')]);
        if (!$servers->hasRemote()) {
            $stream = $servers->connect(static fn (Address $address, float $limit) => Socket::dial($address, $limit), self::TIMEOUT, null);

            return new self(new Channel($stream), false, self::json($hello));
        }
        $session = new Session($servers, $hello, $reconnectFor ?? self::RECONNECT_FOR, $keepalive);
        $welcome = $session->open();

        return new self($session->channel, false, '', $session, $welcome);
    }

    /**
     * Uses the socket that a forked worker got from its zygote.
     *
     * @param resource $stream
     * @param array<string, mixed> $hello fields of HELLO
     */
    public static function forked($stream, array $hello): self
    {
        return new self(new Channel($stream), true, self::json($hello));
    }

    /** @param array<string, mixed> $hello */
    private static function json(array $hello): string
    {
        return json_encode($hello, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE);
    }
}
