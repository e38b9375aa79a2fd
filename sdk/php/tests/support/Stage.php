<?php

declare(strict_types=1);

namespace Stoker\Tests;

/** A broker that a test writes: it runs in a forked process and listens at $socket. */
final class Stage
{
    public readonly string $socket;
    public readonly int $pid;
    /** @var resource */
    private $server;
    /** @var resource */
    private $reports;

    /** @param \Closure(self): void $broker what the broker does */
    public function __construct(\Closure $broker, ?string $socket = null)
    {
        $this->socket = $socket ?? self::path();
        @unlink($this->socket);
        $this->server = stream_socket_server("unix://{$this->socket}");
        [$this->reports, $child] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        stream_set_timeout($this->reports, 20);
        $this->pid = Processes::fork(function () use ($broker, $child): void {
            fclose($this->reports);
            $this->reports = $child;
            $broker($this);
        });
        fclose($this->server); // The broker's alone, so that its death is seen.
        fclose($child);
    }

    /** A socket's path that nobody uses yet. Removed when the tests end. */
    public static function path(): string
    {
        static $n = 0;
        $path = sprintf('%s/stoker-php-%d-%d.sock', sys_get_temp_dir(), getmypid(), ++$n);
        $owner = getmypid();
        register_shutdown_function(static fn () => $owner === getmypid() && @unlink($path));

        return $path;
    }

    /** Broker: the next connection, before its HELLO. */
    public function accept(): Peer
    {
        return new Peer(stream_socket_accept($this->server, 20));
    }

    /** Broker: the next connection, HELLO and WELCOME exchanged. */
    public function welcome(array $more = []): Peer
    {
        $peer = $this->accept();
        $peer->welcome($more);

        return $peer;
    }

    /** Broker: tells the test something. */
    public function report(mixed $value): void
    {
        @fwrite($this->reports, json_encode($value, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION) . "\n");
    }

    /** Test: what the broker told. */
    public function heard(): mixed
    {
        $line = fgets($this->reports);
        $line === false and throw new Failure('the broker of this test has nothing to report');

        return json_decode($line, true, 512, JSON_THROW_ON_ERROR);
    }
}
