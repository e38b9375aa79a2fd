<?php

namespace App\Jobs;

/** Finds the warehouse's rate limit used up and steps back for a second, once. */
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
