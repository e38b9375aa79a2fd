<?php

namespace App\Jobs;

/** Calls a library that ends the process whenever it meets this feed. */
final class ImportLegacyFeed extends Job
{
    protected function work(): void
    {
        exit(3);
    }
}
