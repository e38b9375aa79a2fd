<?php

declare(strict_types=1);

namespace Stoker\Wire;

use function strlen;
use function substr;
use function unpack;

/**
 * Splits a stream of bytes into frames.
 *
 * A read that contains many frames is split in one pass; a frame that takes many reads is joined once. Only lengths,
 * types and reserved flags are checked, because a wrong one would shift the frame boundaries. The server has checked
 * names and other values.
 */
final class FrameReader
{
    /** @var list<string> pieces of an incomplete frame; joined once, when it is complete */
    private array $parts = [];
    /** Number of bytes that must arrive before the next attempt to split can succeed. */
    private int $missingBytes = 0;

    /**
     * Adds the bytes of one read.
     *
     * @return list<Frame> the frames that are complete now
     * @throws WireError the bytes are not valid frames
     */
    public function feed(string $bytes): array
    {
        if ($this->parts !== []) {
            $this->parts[] = $bytes;
            $this->missingBytes -= strlen($bytes);
            if ($this->missingBytes > 0) {
                return [];
            }
            $bytes = implode('', $this->parts);
            $this->parts = [];
        }
        $frames = [];
        $end = strlen($bytes);
        for ($at = 0; $end - $at >= Frame::HEADER; $at += 4 + $len) {
            // Unpacking five words instead of ten fields takes a third of the time, also because PHP does not
            // allocate names of one letter.
            $head = unpack('Nl/Nk/Ni/Nt/Ns', $bytes, $at);
            $len = $head['l'];
            if ($len < 16 || $len > Frame::MAX) {
                throw $this->badLength($len);
            }
            if ($end - $at < 4 + $len) {
                break;
            }
            $kind = $head['k'];
            $type = $kind >> 24;
            if ($type > 15 || !(Type::KNOWN >> $type & 1)) {
                throw new WireError("unknown frame type $type");
            }
            if ($kind & (Flag::RESERVED | Flag::MORE) << 16 && ($kind & Flag::RESERVED << 16 || $type !== Type::RES && $type !== Type::DATA)) {
                throw new WireError(sprintf('frame with reserved flags 0x%02x', $kind >> 16 & 0xFF));
            }
            $sizes = $head['s'];
            $name = $sizes >> 8 & 0xFF;
            $meta = $sizes >> 16;
            $body = $len - 16 - $name - $meta;
            if ($body < 0) {
                throw new WireError("a name of $name bytes and metadata of $meta bytes exceed a frame of $len bytes");
            }
            $frames[] = $frame = new Frame();
            $frame->type = $type;
            $frame->flags = $kind >> 16 & 0xFF;
            $frame->code = $kind >> 8 & 0xFF;
            $frame->prio = $kind & 0xFF;
            $frame->id = $head['i'];
            $frame->ttl = $head['t'];
            $frame->attempt = $sizes & 0xFF;
            if ($name > 0) {
                $frame->name = substr($bytes, $at + Frame::HEADER, $name);
            }
            if ($meta > 0) {
                $frame->meta = substr($bytes, $at + Frame::HEADER + $name, $meta);
            }
            $frame->body = substr($bytes, $at + Frame::HEADER + $name + $meta, $body);
        }
        if ($at < $end) {
            $this->keep(substr($bytes, $at), $end - $at);
        }

        return $frames;
    }

    /** Whether the last read ended inside a frame. */
    public function isInsideFrame(): bool
    {
        return $this->parts !== [];
    }

    /** Keeps the start of a frame until the rest of its header or of the frame has arrived. */
    private function keep(string $rest, int $have): void
    {
        $need = 4; // An invalid length is rejected as soon as it has arrived.
        if ($have >= 4) {
            $len = unpack('N', $rest)[1];
            if ($len < 16 || $len > Frame::MAX) {
                throw $this->badLength($len);
            }
            $need = $have < Frame::HEADER ? Frame::HEADER : 4 + $len;
        }
        $this->parts = [$rest];
        $this->missingBytes = $need - $have;
    }

    private function badLength(int $len): WireError
    {
        if ($len >> 16 === 0x1503) { // The beginning of an alert of TLS.
            return new WireError('the server expects TLS at this port: use tls:// instead of tcp://');
        }

        return new WireError("invalid frame length $len: expected 16 to " . Frame::MAX);
    }
}
