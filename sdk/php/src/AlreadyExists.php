<?php

declare(strict_types=1);

namespace Stoker;

/** A job with this unique key is waiting or running; nothing was pushed. */
final class AlreadyExists extends StokerException
{
    /** Id of the job that holds the key. */
    public string $jobId = '';
}
