<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Bits of a frame's second byte: docs/reference/protocol.md, section 3. */
final class Flag
{
    /** RES and DATA only: further parts of the answer follow. */
    public const MORE = 0x01;
    public const ONEWAY = 0x08;
    public const IDEMPOTENT = 0x10;
    public const SHADOW = 0x20;
    public const NOT_PROCESSED = 0x40;
    public const CRITICAL = 0x80;

    /** The bits ZSTD and CRC32C, which must be 0 in version 1. */
    public const RESERVED = 0x06;
}
