<?php

namespace App\Jobs;

/** The fast one: what is left is the queue's own cost. */
final class SayHello extends Job
{
    protected function work(): void
    {
        // Nothing to do.
    }
}
