<?php

namespace App\Jobs;

use RuntimeException;

/** Throws in its first run and succeeds in the second. */
final class ChargeCard extends Job
{
    public $tries = 3;

    /** Seconds before the second run, and before each later run. */
    public $backoff = [0, 1];

    protected function work(): void
    {
        if ($this->attempts() === 1) {
            throw new RuntimeException('The payment gateway timed out');
        }
    }
}
