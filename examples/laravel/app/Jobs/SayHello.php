<?php

namespace App\Jobs;

/** A job that does nothing, so that a measurement shows the cost of the queue itself. */
final class SayHello extends Job
{
    protected function work(): void
    {
        // Nothing to do.
    }
}
