<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Statuses of an answer: docs/reference/protocol.md, section 5. */
final class Status
{
    public const OK = 0;
    public const CANCELLED = 1;
    public const UNKNOWN = 2;
    public const INVALID_ARGUMENT = 3;
    public const DEADLINE_EXCEEDED = 4;
    public const NOT_FOUND = 5;
    public const ALREADY_EXISTS = 6;
    public const PERMISSION_DENIED = 7;
    public const RESOURCE_EXHAUSTED = 8;
    public const FAILED_PRECONDITION = 9;
    public const UNIMPLEMENTED = 12;
    public const INTERNAL = 13;
    public const UNAVAILABLE = 14;
    public const UNAUTHENTICATED = 16;
    public const NO_WORKER = 32;
    public const WORKER_DIED = 33;
    public const QUARANTINED = 34;
    public const SHED = 35;
    public const RETRY = 48;
    public const FAILED = 49;
    public const RETURNED = 50;
    public const CRASHED = 51;
    public const APPLICATION = 64;
}
