<?php

declare(strict_types=1);

namespace Stoker\Laravel;

/** Why a job with failOnTimeout failed whose worker had to be ended. */
final class TimedOut extends \RuntimeException
{
    public function __construct(string $job)
    {
        parent::__construct("$job ran longer than it may, and its worker was ended");
    }
}
