<?php

declare(strict_types=1);

namespace Stoker;

/** A job with this unique key is waiting or running, or another user's push has the idempotency key; nothing was pushed. */
final class AlreadyExists extends StokerException
{
    /** Id of the job that holds the key; null where that is another user's. */
    public ?string $jobId = null;
}
