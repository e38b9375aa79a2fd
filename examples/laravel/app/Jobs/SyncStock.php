<?php

namespace App\Jobs;

/** Hits the rate limit of the warehouse in its first run, and releases itself for a second. */
final class SyncStock extends Job
{
    public $tries = 3;

    protected function work(): void
    {
        if ($this->attempts() === 1) {
            $this->release(1);
        }
    }
}
