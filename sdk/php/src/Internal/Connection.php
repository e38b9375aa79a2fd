<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionRefused;
use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Type;
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

    /** @var array<string, \WeakReference<self>> the connections of this process that are persistent, by address and token */
    private static array $persistent = [];

    private FrameReader $reader;
    /** @var list<Frame> */
    private array $frames = [];
    private int $pid;
    /** Why the connection has ended, as far as this class knows; null = the server closed it, or the time was up. */
    public ?string $failure = null;

    /**
     * @param resource $stream
     * @param ?int $keepalive nanoseconds without a byte after which a PING is sent, and then as many until the connection
     *                        counts as lost; null = never
     */
    private function __construct(
        private $stream,
        public readonly Address $address,
        public readonly bool $isPersistent,
        private ?int $keepalive,
    ) {
        $this->reader = new FrameReader();
        $this->pid = getmypid();
    }

    /**
     * Connects to a server.
     *
     * @param float   $timeout    seconds
     * @param bool    $persistent use a persistent connection, unless another client of this script uses it
     * @param ?string $token      token for a remote server
     * @param float   $keepalive  seconds, for a remote server; 0 = off
     * @throws ConnectionRefused
     */
    public static function open(Address $address, float $timeout, bool $persistent, ?string $token, float $keepalive): self
    {
        $id = $persistent ? "{$address->text} $token" : '';
        // Two clients on one stream would read each other's answers.
        $persistent = $persistent && (self::$persistent[$id] ?? null)?->get() === null;
        $stream = Socket::dial($address, $timeout, $persistent, $token);
        $nanos = $address->isRemote() && $keepalive > 0 ? (int) ($keepalive * 1e9) : null;
        $self = new self($stream, $address, $persistent, $nanos);
        if ($persistent) {
            self::$persistent[$id] = \WeakReference::create($self);
        }

        return $self;
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

    /** Whether every byte that has been read belongs to a frame that take() has returned. */
    public function isClean(): bool
    {
        return $this->frames === [] && !$this->reader->isInsideFrame();
    }

    /** @return list<Frame> the frames that have been read since the last call */
    public function take(): array
    {
        [$frames, $this->frames] = [$this->frames, []];

        return $frames;
    }

    /**
     * Writes bytes. While the socket's buffer is full, reads.
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
        if ($this->keepalive !== null) {
            return $this->readOrProbe($until);
        }
        $this->setTimeLimit($until);

        return $this->fill();
    }

    public function close(): void
    {
        if ($this->address->isRemote()) {
            // Closing a TLS connection sends a last message, which must not block if the server does not read.
            stream_set_blocking($this->stream, false);
        }
        fclose($this->stream); // Closes a persistent connection too.
    }

    /** Reads like read(). If nothing arrives, finds out with a PING whether the server can still be reached. */
    private function readOrProbe(?int $until): bool
    {
        foreach ([true, false] as $isFirst) {
            $limit = hrtime(true) + $this->keepalive;
            $this->setTimeLimit(min($limit, $until ?? $limit));
            if (!$this->fill()) {
                return false;
            }
            if (!stream_get_meta_data($this->stream)['timed_out'] || $until !== null && $until <= $limit) {
                return true;
            }
            // The id says nothing: any byte that arrives shows that the server is there.
            if ($isFirst && fwrite($this->stream, Frame::of(Type::PING, id: 1)->encode()) === false) {
                return false;
            }
        }
        $this->failure = sprintf('it did not answer a PING within %g seconds', $this->keepalive / 1e9);

        return false;
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
                $stall = $this->keepalive === null ? null : hrtime(true) + 2 * $this->keepalive;
                $limit = min($until ?? $stall, $stall ?? $until);
                $micros = $limit === null ? null : max(0, intdiv($limit - hrtime(true), 1000));
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
