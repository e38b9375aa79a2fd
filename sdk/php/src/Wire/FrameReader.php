<?php

declare(strict_types=1);

namespace Stoker\Wire;

use function strlen;
use function substr;
use function unpack;

/**
 * Cuts a stream of bytes into frames.
 *
 * It keeps an offset into what arrived, so a read of a hundred frames is not copied a hundred times. It checks what
 * could make it read in the wrong place; that names and numbers make sense, the broker has checked.
 */
final class FrameReader
{
    private string $buffer = '';
    private int $offset = 0;
    /** @var list<string> a frame larger than one read, so far; joined once, when it is whole */
    private array $parts = [];
    /** Bytes that the frame in $parts still lacks. */
    private int $lacking = 0;

    /** @param int $maxFrame the largest length field accepted; WELCOME's `max_frame` */
    public function __construct(public int $maxFrame = Frame::MAX)
    {
    }

    public function feed(string $bytes): void
    {
        if ($this->lacking > 0) {
            $this->parts[] = $bytes;
            $this->lacking -= strlen($bytes);
            if ($this->lacking > 0) {
                return;
            }
            $bytes = implode('', $this->parts);
            $this->parts = [];
        }
        $this->buffer = $this->buffer === '' ? $bytes : $this->buffer . $bytes;
    }

    /** Whether bytes wait that are no whole frame yet. Only right after next() has said null. */
    public function isInsideFrame(): bool
    {
        return $this->buffer !== '' || $this->parts !== [];
    }

    /**
     * The next whole frame, or null when more bytes are needed first.
     *
     * @throws WireError the bytes are no frame
     */
    public function next(): ?Frame
    {
        $at = $this->offset;
        $have = strlen($this->buffer) - $at;
        if ($have < Frame::HEADER) {
            return $this->keep($have);
        }
        // Five words, not ten fields, and names of one letter, which PHP need not allocate: a third of the time.
        $head = unpack('Nl/Nk/Ni/Nt/Ns', $this->buffer, $at);
        $len = $head['l'];
        if ($len < 16 || $len > $this->maxFrame) {
            throw $this->badLength($len);
        }
        if ($have < 4 + $len) {
            $this->keep($have);
            $this->parts = [$this->buffer];
            $this->buffer = '';
            $this->lacking = 4 + $len - $have;

            return null;
        }
        $kind = $head['k'];
        $type = $kind >> 24;
        if ($type > 15 || !(Type::KNOWN >> $type & 1)) {
            throw new WireError("frame of unknown type $type");
        }
        if ($kind & Flag::RESERVED << 16) {
            throw new WireError(sprintf('frame with reserved flags 0x%02x', $kind >> 16 & 0xFF));
        }
        $sizes = $head['s'];
        $name = $sizes >> 8 & 0xFF;
        $meta = $sizes >> 16;
        $body = $len - 16 - $name - $meta;
        if ($body < 0) {
            throw new WireError("a name of $name and metadata of $meta bytes overrun a frame of $len");
        }
        $this->offset = $at + 4 + $len;
        $at += Frame::HEADER;

        $frame = new Frame();
        $frame->type = $type;
        $frame->flags = $kind >> 16 & 0xFF;
        $frame->code = $kind >> 8 & 0xFF;
        $frame->prio = $kind & 0xFF;
        $frame->id = $head['i'];
        $frame->ttl = $head['t'];
        $frame->attempt = $sizes & 0xFF;
        if ($name > 0) {
            $frame->name = substr($this->buffer, $at, $name);
        }
        if ($meta > 0) {
            $frame->meta = substr($this->buffer, $at + $name, $meta);
        }
        $frame->body = substr($this->buffer, $at + $name + $meta, $body);

        return $frame;
    }

    /** Forgets what has been read, so that a quiet connection holds no memory. */
    private function keep(int $have): ?Frame
    {
        $this->buffer = substr($this->buffer, $this->offset);
        $this->offset = 0;
        if ($have >= 4 && $have < Frame::HEADER) {
            $len = unpack('N', $this->buffer)[1];
            if ($len < 16 || $len > $this->maxFrame) {
                throw $this->badLength($len);
            }
        }

        return null;
    }

    private function badLength(int $len): WireError
    {
        return new WireError("frame length $len is outside 16 to {$this->maxFrame}");
    }
}
