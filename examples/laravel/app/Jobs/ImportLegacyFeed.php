<?php

namespace App\Jobs;

/** Calls a library that ends the process every time it reads this feed. */
final class ImportLegacyFeed extends Job
{
    protected function work(): void
    {
        exit(3);
    }
}
