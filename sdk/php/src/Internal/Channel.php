<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\TaskTimeout;
use Stoker\Wire\Frame;
use Stoker\Wire\Type;

use function fwrite;
use function getmypid;
use function strlen;

/** The worker's end of its socket. Only the process that opened it ever writes to it. @internal */
final class Channel
{
    /** Microseconds. */
    private const MOMENT = 10_000;

    /** The broker is gone: nothing more can be told to it. */
    public bool $broken = false;

    /** A soft cancel came while a frame was half written or half taken; it is thrown when that is over. */
    public bool $interrupted = false;

    public bool $writing = false;
    private int $pid;

    /** @param resource $stream */
    public function __construct(private $stream)
    {
        $this->pid = getmypid();
    }

    /** False in a child that a handler forked: it has the same socket, and no right to it. */
    public function isMine(): bool
    {
        return getmypid() === $this->pid;
    }

    /** Waits for bytes; null is the end of the connection. */
    public function read(): ?string
    {
        do {
            $bytes = @fread($this->stream, Socket::CHUNK);
        } while (($bytes === '' || $bytes === false) && !stream_get_meta_data($this->stream)['eof']);

        return $bytes === '' || $bytes === false ? null : $bytes;
    }

    /**
     * Waits for bytes, for so many seconds at the most; null = for ever. "" when none came, because the time is up or
     * a signal came; null is the end of the connection.
     */
    public function readWithin(?float $seconds): ?string
    {
        $read = [$this->stream];
        $none = null;
        $micros = $seconds === null ? null : (int) ($seconds * 1e6);
        // At a signal it warns, and an application's error handler may throw even at a warning that is silenced.
        set_error_handler(static fn (): bool => true);
        try {
            $ready = stream_select($read, $none, $none, $micros === null ? null : intdiv($micros, 1_000_000), ($micros ?? 0) % 1_000_000);
        } finally {
            restore_error_handler();
        }
        if ($ready === 0) {
            return '';
        }
        // For a moment only: a signal's handler may have read just now what was there. Or there was nothing, but a signal;
        // or a descriptor of 1024 and above, which select() can't do.
        stream_set_timeout($this->stream, 0, self::MOMENT);
        $bytes = @fread($this->stream, Socket::CHUNK);
        stream_set_timeout($this->stream, -1);

        return (string) $bytes !== '' ? $bytes : (stream_get_meta_data($this->stream)['eof'] ? null : '');
    }

    public function event(int $kind, int $id, string $body, int $stream = 0): void
    {
        if ($this->isMine()) {
            $this->write(Frame::of(Type::EVENT, code: $kind, prio: $stream, id: $id, body: $body)->encode());
        }
    }

    /** Writes whole frames. The caller has made sure that this isMine(). */
    public function write(string $bytes): void
    {
        if ($this->broken) {
            return;
        }
        $wasBusy = $this->writing;
        $this->writing = true;
        $sent = @fwrite($this->stream, $bytes);
        if ($sent !== strlen($bytes)) {
            $this->rest($bytes, (int) $sent);
        }
        $this->writing = $wasBusy;
        $wasBusy || !$this->interrupted || $this->throwInterrupt();
    }

    /** @throws TaskTimeout the soft cancel that had to wait */
    public function throwInterrupt(): void
    {
        if ($this->interrupted) {
            $this->interrupted = false;
            Loop::strike();
        }
    }

    /** PHP has written less than it was given. Goes on until all is written, or nothing more can be. */
    private function rest(string $bytes, int $sent): void
    {
        while ($sent < strlen($bytes) && !$this->broken) {
            $more = (int) @fwrite($this->stream, substr($bytes, $sent, Socket::CHUNK));
            $this->broken = $more === 0;
            $sent += $more;
        }
    }

    public function close(): void
    {
        $this->broken = true;
        if (is_resource($this->stream)) {
            fclose($this->stream);
        }
    }
}
