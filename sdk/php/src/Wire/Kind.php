<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Kinds of EVENT (docs/reference/protocol.md, section 6), and the two streams of a log. */
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
