<?php

namespace App\Jobs;

use RuntimeException;

/** Throws on its first run, succeeds on the second. */
final class ChargeCard extends Job
{
    public $tries = 3;

    /** Seconds before the second run and before every later one. */
    public $backoff = [0, 1];

    protected function work(): void
    {
        if ($this->attempts() === 1) {
            throw new RuntimeException('The payment gateway timed out');
        }
    }
}
