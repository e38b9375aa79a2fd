<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\WireError;

/** A client's open stream, with time limits. Knows frames, but not what they mean. @internal */
final class Connection
{
    /** Bytes that nearly always fit into the system's buffer, and nanoseconds in which they must. */
    private const SMALL = 32768;
    private const SOON = 50_000_000;

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

    /** Whether an earlier script has used this persistent connection: it has said HELLO then. */
    public function isUsed(): bool
    {
        return ftell($this->stream) > 0;
    }

    /** @return list<Frame> what has been read and not been taken yet */
    public function take(): array
    {
        [$frames, $this->frames] = [$this->frames, []];

        return $frames;
    }

    /**
     * @param ?int $until nanoseconds of hrtime()
     * @return int bytes that were taken; fewer than given when the connection has ended or the time is up
     * @throws WireError
     */
    public function write(string $bytes, ?int $until): int
    {
        $sent = 0;
        if (strlen($bytes) <= self::SMALL) {
            $soon = hrtime(true) + self::SOON;
            $this->limit(min($soon, $until ?? $soon));
            $sent = (int) fwrite($this->stream, $bytes);
        }

        return $sent === strlen($bytes) ? $sent : $this->writeAndRead($bytes, $sent, $until);
    }

    /**
     * Waits for bytes. False: the connection has ended. When the time is up it is true, and take() has nothing.
     *
     * @throws WireError
     */
    public function read(?int $until): bool
    {
        $this->limit($until);

        return $this->fill();
    }

    public function close(): void
    {
        fclose($this->stream); // Closes a persistent connection too.
    }

    /**
     * Answers are read meanwhile: a broker does not read from a client that leaves its answers lying, and so each would
     * wait for the other.
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
                    // A signal, or a descriptor of 1024 and above, which select() can't do. Then without reading.
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
                $more = $write === [] ? 0 : fwrite($this->stream, substr($bytes, $sent, self::SMALL));
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
            return !stream_get_meta_data($this->stream)['eof']; // feof() would wait once more.
        }
        $frames = $this->reader->feed($bytes);
        $this->frames = $this->frames === [] ? $frames : [...$this->frames, ...$frames];

        return true;
    }

    /** Sets how long the next read or write may take. */
    private function limit(?int $until): void
    {
        if ($until === null) {
            stream_set_timeout($this->stream, -1);
        } else {
            $micros = max(1, intdiv($until - hrtime(true), 1000));
            stream_set_timeout($this->stream, intdiv($micros, 1_000_000), $micros % 1_000_000);
        }
    }
}
