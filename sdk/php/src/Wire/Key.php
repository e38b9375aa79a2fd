<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** Metadata keys: docs/reference/protocol.md, section 4. Keys from 0x80 to 0xFE are reserved for applications. */
final class Key
{
    public const TRACEPARENT = 1;
    public const TRACESTATE = 2;
    public const BAGGAGE = 3;
    public const AFFINITY = 4;
    public const FAIRNESS = 5;
    public const IDEMPOTENCY = 6;
    public const CALLER = 7;
    public const TOKEN = 8;
    public const PIN = 9;
    public const PARENT = 10;
    public const RETRY_AFTER = 11;
    public const QUEUE_TIME = 12;
    public const WORKER = 13;
    public const ERROR_CLASS = 14;
    public const DEADLINE_ORIGIN = 15;
    public const JOB_ID = 16;
    public const DELAY = 17;
    public const UNIQUE = 18;
    public const TRIES = 19;
    public const BACKOFF = 20;
    public const COST = 21;
    public const TIMEOUT = 22;
    public const DUE_AT = 23;
    public const QUEUE = 24;
    public const CRASHES = 25;
    public const ERROR_PLACE = 26;
    public const CREATED_AT = 27;
    public const RETRY_UNTIL = 28;
    public const MAX_EXCEPTIONS = 29;
    public const FAIL_ON_TIMEOUT = 30;
    public const UNIQUE_UNTIL_START = 31;
    public const UNIQUE_FOR = 32;
    public const JOB_TYPE = 33;
    public const KEEP_RESULT = 34;
    public const CHECKPOINT = 35;
    public const ITEM = 36;
    public const SIGNAL = 37;
    public const CLIENT_ADDRESS = 38;
    public const SCRIPT = 39;
    public const DOCUMENT_ROOT = 40;
    public const BODY_FILE = 41;
    public const CREDIT = 42;
    public const TRAILERS = 43;
    public const ANSWER_DIRECTORY = 44;

    /** The highest key that this version knows. */
    public const LAST = self::ANSWER_DIRECTORY;
    /** The first key that is reserved for applications. */
    public const YOURS = 0x80;
}
