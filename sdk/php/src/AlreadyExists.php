<?php

declare(strict_types=1);

namespace Stoker;

/**
 * The push was rejected because another job that waits or runs has the same unique key, or because a push of another
 * user has the same idempotency key.
 */
final class AlreadyExists extends StokerException
{
    /** Id of the job that holds the key; null if the job belongs to another user. */
    public ?string $jobId = null;
}
