<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Queue\MaxAttemptsExceededException;

/**
 * The exception of a job that failed because its run exceeded the timeout, its worker was killed, and failOnTimeout
 * or maxExceptions does not allow another run. With Laravel's own alarm, failed() receives the parent class.
 */
final class TimedOut extends MaxAttemptsExceededException
{
    public function __construct(string $job)
    {
        parent::__construct("$job exceeded its timeout, and its worker was killed");
    }
}
