<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Queue\MaxAttemptsExceededException;

/**
 * Why a job failed whose worker had to be ended, and that may not time out (again): by failOnTimeout or maxExceptions.
 * Laravel's own alarm gives failed() the class that this extends.
 */
final class TimedOut extends MaxAttemptsExceededException
{
    public function __construct(string $job)
    {
        parent::__construct("$job exceeded its timeout, and its worker was killed");
    }
}
