<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Kinds of EVENT, and the two streams of a log event: docs/reference/protocol.md, section 6. */
final class Kind
{
    public const LOG = 1;
    public const METRIC = 2;
    public const PROGRESS = 3;
    public const LAST_WORDS = 4;
    public const CHECKPOINT = 5;
    public const ACK = 6;

    public const STDOUT = 1;
    public const STDERR = 2;
}
