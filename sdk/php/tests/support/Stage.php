<?php

declare(strict_types=1);

namespace Stoker\Tests;

/**
 * A fake server whose code is part of the test. It runs in a forked process and listens on $socket: a unix socket, or a
 * free port.
 */
final class Stage
{
    /** Path of the socket, or URL of the port; for tls:// with the CA of Certificates. */
    public readonly string $socket;
    public readonly int $pid;
    /** @var resource */
    private $server;
    /** @var resource */
    private $reports;

    /**
     * @param \Closure(self): void $serve code of the fake server
     * @param string|null $socket path of a unix socket, "tcp" or "tls" for a free port, or "host:port" for this one;
     *                            default: a new path
     * @param string|null $certificate file with the certificate and its key, for "tls"; default: a valid one
     */
    public function __construct(\Closure $serve, ?string $socket = null, private ?string $certificate = null)
    {
        if ($socket === null || $socket[0] === '/') {
            $this->socket = $socket ?? self::path();
            @unlink($this->socket);
            $this->server = stream_socket_server("unix://{$this->socket}");
        } else {
            $isTls = $socket === 'tls' || $certificate !== null;
            $this->certificate ??= $isTls ? Certificates::server() : null;
            $host = str_contains($socket, ':') ? $socket : '127.0.0.1:0';
            $context = stream_context_create(['ssl' => ['local_cert' => $this->certificate]]);
            $this->server = stream_socket_server("tcp://$host", $errno, $why, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, $context);
            $port = stream_socket_get_name($this->server, false);
            $this->socket = $isTls ? "tls://$port?ca=" . Certificates::ca() : "tcp://$port";
        }
        [$this->reports, $child] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        stream_set_timeout($this->reports, 20);
        $this->pid = Processes::fork(function () use ($serve, $child): void {
            fclose($this->reports);
            $this->reports = $child;
            $serve($this);
        });
        fclose($this->server); // Only the server's process keeps it open, so that its death closes it.
        fclose($child);
    }

    /** An unused path for a socket. It is removed when the tests end. */
    public static function path(): string
    {
        static $n = 0;
        $path = sprintf('%s/stoker-php-%d-%d.sock', sys_get_temp_dir(), getmypid(), ++$n);
        $owner = getmypid();
        register_shutdown_function(static fn () => $owner === getmypid() && @unlink($path));

        return $path;
    }

    /** "host:port" of a port, for another address or another server. */
    public function hostAndPort(): string
    {
        return preg_replace('~^\w+://|\?.*~', '', $this->socket);
    }

    /** For the server: the next connection, before its HELLO. Connections whose TLS handshake fails are skipped. */
    public function accept(): Peer
    {
        do {
            $stream = stream_socket_accept($this->server, 20);
        } while ($this->certificate !== null && !@stream_socket_enable_crypto($stream, true, STREAM_CRYPTO_METHOD_TLS_SERVER));

        return new Peer($stream);
    }

    /** For the server: the next connection, after HELLO and WELCOME. */
    public function welcome(array $more = []): Peer
    {
        $peer = $this->accept();
        $peer->welcome($more);

        return $peer;
    }

    /** For the server: reports a value to the test. */
    public function report(mixed $value): void
    {
        @fwrite($this->reports, json_encode($value, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION) . "\n");
    }

    /** For the test: the next value that the server reported. */
    public function heard(): mixed
    {
        $line = fgets($this->reports);
        $line === false and throw new Failure('the fake server of this test has nothing to report');

        return json_decode($line, true, 512, JSON_THROW_ON_ERROR);
    }
}
