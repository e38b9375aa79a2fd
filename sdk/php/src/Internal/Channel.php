<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\TaskTimeout;
use Stoker\Wire\Frame;
use Stoker\Wire\Type;

use function fwrite;
use function getmypid;
use function strlen;

/** The worker's end of its connection. Only the process that opened it writes to it. @internal */
final class Channel
{
    /** Maximum time that fread() may block after stream_select(), in microseconds. */
    private const READ_LIMIT_US = 10_000;

    /** The connection has failed or was closed: nothing more is written. */
    public bool $broken = false;

    /** The server does not know the running task any more: its events are dropped. */
    public bool $muted = false;

    /** A soft cancel arrived while a frame was being written or processed; TaskTimeout is thrown after that. */
    public bool $interrupted = false;

    /** Frames are being written or processed; a soft cancel must not interrupt that. */
    public bool $writing = false;
    private int $pid;

    /**
     * @param resource $stream
     * @param int $writeLimit seconds after which a write that makes no progress fails; -1 = no limit
     */
    public function __construct(private $stream, private int $writeLimit = -1)
    {
        $this->pid = getmypid();
        $writeLimit < 0 || stream_set_timeout($stream, $writeLimit);
    }

    /** Continues with the connection of another channel, which must not be used any more. */
    public function replace(self $other): void
    {
        $this->stream = $other->stream;
        $this->broken = $other->broken;
    }

    /** False in a child that a handler forked: it inherited the socket, but must not use it. */
    public function isMine(): bool
    {
        return getmypid() === $this->pid;
    }

    /** Waits for bytes and returns them; null at the end of the connection. */
    public function read(): ?string
    {
        do {
            $bytes = @fread($this->stream, Socket::CHUNK);
        } while (($bytes === '' || $bytes === false) && !stream_get_meta_data($this->stream)['eof']);

        return $bytes === '' || $bytes === false ? null : $bytes;
    }

    /**
     * Waits for bytes and returns them; "" if none arrived because the time is up or a signal arrived; null at the end of
     * the connection.
     *
     * @param ?float $seconds maximum time to wait; null = no limit
     */
    public function readWithin(?float $seconds): ?string
    {
        $read = [$this->stream];
        $none = null;
        $micros = $seconds === null ? null : (int) ($seconds * 1e6);
        // stream_select() raises a warning when a signal interrupts it. With @, an application's error handler would
        // still be called and might throw.
        set_error_handler(static fn (): bool => true);
        try {
            $ready = stream_select($read, $none, $none, $micros === null ? null : intdiv($micros, 1_000_000), ($micros ?? 0) % 1_000_000);
        } finally {
            restore_error_handler();
        }
        if ($ready === 0) {
            return '';
        }
        // Limit the time of this read, because there may be nothing to read: a signal handler may have read the bytes
        // in the meantime, or stream_select() failed because of a signal or because it does not support descriptors
        // from 1024.
        stream_set_timeout($this->stream, 0, self::READ_LIMIT_US);
        $bytes = @fread($this->stream, Socket::CHUNK);
        stream_set_timeout($this->stream, $this->writeLimit);

        return (string) $bytes !== '' ? $bytes : (stream_get_meta_data($this->stream)['eof'] ? null : '');
    }

    public function event(int $kind, int $id, string $body, int $stream = 0): void
    {
        if ($this->isMine() && !$this->muted) {
            $this->write(Frame::of(Type::EVENT, code: $kind, prio: $stream, id: $id, body: $body)->encode());
        }
    }

    /** Writes complete frames. The caller must have checked isMine(). */
    public function write(string $bytes): void
    {
        if ($this->broken) {
            return;
        }
        $wasBusy = $this->writing;
        $this->writing = true;
        $sent = @fwrite($this->stream, $bytes);
        if ($sent !== strlen($bytes)) {
            $this->writeRest($bytes, (int) $sent);
        }
        $this->writing = $wasBusy;
        $wasBusy || !$this->interrupted || $this->throwInterrupt();
    }

    /** @throws TaskTimeout a soft cancel was deferred and is meant for the running task */
    public function throwInterrupt(): void
    {
        if ($this->interrupted) {
            $this->interrupted = false;
            Signals::softCancelActive();
        }
    }

    /** Writes the bytes that a short write left, until all are written or the connection fails. */
    private function writeRest(string $bytes, int $sent): void
    {
        while ($sent < strlen($bytes) && !$this->broken) {
            $more = (int) @fwrite($this->stream, substr($bytes, $sent, Socket::CHUNK));
            $this->broken = $more === 0;
            $sent += $more;
        }
    }

    /** Reads and drops bytes until the server has closed the connection, at most $seconds, then closes this end. */
    public function linger(float $seconds): void
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        while (!$this->broken && hrtime(true) < $until) {
            if ($this->readWithin(max(0.0, ($until - hrtime(true)) / 1e9)) === null) {
                break;
            }
        }
        $this->close();
    }

    public function close(): void
    {
        $this->broken = true;
        if (is_resource($this->stream)) {
            // Closing a TLS connection sends a last message, which must not block if the server does not read.
            $this->writeLimit < 0 || stream_set_blocking($this->stream, false);
            fclose($this->stream);
        }
    }
}
