<?php

namespace App\Jobs;

/** The slow one. */
final class RenderReport extends Job
{
    public $timeout = 30;

    protected function work(): void
    {
        usleep(200_000);
    }
}
