<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\WireError;

/** A client's open connection: reads and writes with time limits, and splits what it reads into frames. @internal */
final class Connection
{
    /**
     * Writes of at most SMALL_WRITE bytes nearly always fit into the socket's buffer, so they are first tried as one
     * blocking write with a limit of WRITE_LIMIT_NS nanoseconds.
     */
    private const SMALL_WRITE = 32768;
    private const WRITE_LIMIT_NS = 50_000_000;

    private FrameReader $reader;
    /** @var list<Frame> */
    private array $frames = [];
    private int $pid;

    /** @param resource $stream */
    public function __construct(private $stream)
    {
        $this->reader = new FrameReader();
        $this->pid = getmypid();
    }

    /** False in a forked child. */
    public function isMine(): bool
    {
        return $this->pid === getmypid();
    }

    /** Whether an earlier script has used this persistent connection and so has already sent HELLO. */
    public function isUsed(): bool
    {
        return ftell($this->stream) > 0;
    }

    /** @return list<Frame> the frames that have been read since the last call */
    public function take(): array
    {
        [$frames, $this->frames] = [$this->frames, []];

        return $frames;
    }

    /**
     * Writes bytes. Reads meanwhile if the socket's buffer is full.
     *
     * @param ?int $until nanoseconds of hrtime(); null = no limit
     * @return int number of bytes written; fewer than given if the connection has ended or the time is up
     * @throws WireError
     */
    public function write(string $bytes, ?int $until): int
    {
        $sent = 0;
        if (strlen($bytes) <= self::SMALL_WRITE) {
            $limit = hrtime(true) + self::WRITE_LIMIT_NS;
            $this->setTimeLimit(min($limit, $until ?? $limit));
            $sent = (int) fwrite($this->stream, $bytes);
        }

        return $sent === strlen($bytes) ? $sent : $this->writeAndRead($bytes, $sent, $until);
    }

    /**
     * Waits for bytes and splits them into frames for take().
     *
     * @param ?int $until nanoseconds of hrtime(); null = no limit
     * @return bool false if the connection has ended; true also if the time is up
     * @throws WireError
     */
    public function read(?int $until): bool
    {
        $this->setTimeLimit($until);

        return $this->fill();
    }

    public function close(): void
    {
        fclose($this->stream); // Closes a persistent connection too.
    }

    /**
     * Writes the rest of the bytes and reads answers at the same time. The server stops reading from a client that
     * does not read its answers, so without this both sides could wait for each other.
     */
    private function writeAndRead(string $bytes, int $sent, ?int $until): int
    {
        $none = null;
        stream_set_blocking($this->stream, false);
        try {
            while ($sent < strlen($bytes)) {
                $read = $write = [$this->stream];
                $micros = $until === null ? null : max(0, intdiv($until - hrtime(true), 1000));
                $ready = stream_select($read, $write, $none, $micros === null ? null : 0, $micros);
                if ($ready === false) {
                    // stream_select() failed because of a signal or because it does not support descriptors from 1024.
                    // Write the rest without reading.
                    stream_set_blocking($this->stream, true);
                    $sent += (int) fwrite($this->stream, substr($bytes, $sent));
                    break;
                }
                if ($ready === 0) {
                    break;
                }
                if ($read !== [] && !$this->fill()) {
                    break;
                }
                $more = $write === [] ? 0 : fwrite($this->stream, substr($bytes, $sent, self::SMALL_WRITE));
                if ($more === false) {
                    break;
                }
                $sent += $more;
            }
        } finally {
            stream_set_blocking($this->stream, true);
        }

        return $sent;
    }

    private function fill(): bool
    {
        $bytes = fread($this->stream, Socket::CHUNK);
        if ($bytes === '' || $bytes === false) {
            return !stream_get_meta_data($this->stream)['eof']; // feof() would block again.
        }
        $frames = $this->reader->feed($bytes);
        $this->frames = $this->frames === [] ? $frames : [...$this->frames, ...$frames];

        return true;
    }

    /** Sets the time limit of the next read or write. */
    private function setTimeLimit(?int $until): void
    {
        if ($until === null) {
            stream_set_timeout($this->stream, -1);
        } else {
            $micros = max(1, intdiv($until - hrtime(true), 1000));
            stream_set_timeout($this->stream, intdiv($micros, 1_000_000), $micros % 1_000_000);
        }
    }
}
