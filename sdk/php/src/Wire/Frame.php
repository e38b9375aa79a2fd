<?php

declare(strict_types=1);

namespace Stoker\Wire;

use function pack;
use function strlen;

/** One frame of the wire: docs/reference/protocol.md, section 1. */
final class Frame
{
    /** Bytes before the name. */
    public const HEADER = 20;
    /** The largest `len` of version 1; WELCOME may allow less. */
    public const MAX = 0xFFFFFF;

    // No constructor: a reader that sets what is not zero makes a frame in half the time.
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

    /** The frame as bytes. */
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
     * The bytes of an answer, without the detour of a frame: a worker writes as many of them as it reads tasks.
     *
     * @param int $micros how long it worked, 0 = not measured
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
