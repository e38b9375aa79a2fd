<?php

declare(strict_types=1);

namespace Stoker\Wire;

use function pack;
use function strlen;

/** One frame of the wire protocol: docs/reference/protocol.md, section 1. */
final class Frame
{
    /** Length of the header, which precedes the name, in bytes. */
    public const HEADER = 20;
    /** Maximum value of the length field in version 1; WELCOME may set a lower limit. */
    public const MAX = 0xFFFFFF;

    // No constructor: FrameReader sets only the fields that differ from the defaults, which takes half the time.
    public int $type = 0;
    public int $flags = 0;
    public int $code = 0;
    public int $prio = 0;
    public int $id = 0;
    public int $ttl = 0;
    public int $attempt = 0;
    public string $name = '';
    public string $meta = '';
    public string $body = '';

    public static function of(
        int $type,
        int $flags = 0,
        int $code = 0,
        int $prio = 0,
        int $id = 0,
        int $ttl = 0,
        int $attempt = 0,
        string $name = '',
        string $meta = '',
        string $body = '',
    ): self {
        $frame = new self();
        $frame->type = $type;
        $frame->flags = $flags;
        $frame->code = $code;
        $frame->prio = $prio;
        $frame->id = $id;
        $frame->ttl = $ttl;
        $frame->attempt = $attempt;
        $frame->name = $name;
        $frame->meta = $meta;
        $frame->body = $body;

        return $frame;
    }

    /** Encodes the frame, including its length field. */
    public function encode(): string
    {
        return pack(
            'N5',
            16 + strlen($this->name) + strlen($this->meta) + strlen($this->body),
            $this->type << 24 | $this->flags << 16 | $this->code << 8 | $this->prio,
            $this->id,
            $this->ttl,
            strlen($this->meta) << 16 | strlen($this->name) << 8 | $this->attempt,
        ) . $this->name . $this->meta . $this->body;
    }

    /**
     * Encodes a worker's answer without creating a Frame, for speed: a worker writes one for each task.
     *
     * @param int $micros time for which the task ran, in microseconds; 0 = not measured
     */
    public static function answer(int $id, int $status, int $codec, int $micros, string $meta, string $body): string
    {
        return pack(
            'N5',
            16 + strlen($meta) + strlen($body),
            Type::RES << 24 | $status << 8 | $codec,
            $id,
            $micros,
            strlen($meta) << 16,
        ) . $meta . $body;
    }
}
