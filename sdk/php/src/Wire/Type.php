<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Frame types: docs/reference/protocol.md, section 2. */
final class Type
{
    public const REQ = 1;
    public const RES = 2;
    public const CANCEL = 3;
    public const HELLO = 4;
    public const WELCOME = 5;
    public const READY = 6;
    public const PING = 7;
    public const PONG = 8;
    public const GOAWAY = 9;
    public const DATA = 10;
    public const CREDIT = 11;
    public const EVENT = 12;
    public const STARTED = 13;

    /** Bit mask of the known types, so that FrameReader can check a type with one test. */
    public const KNOWN = 0b0011_1111_1111_1110;
}
