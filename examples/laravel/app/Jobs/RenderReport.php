<?php

namespace App\Jobs;

/** A slow job: takes 200 ms. */
final class RenderReport extends Job
{
    public $timeout = 30;

    protected function work(): void
    {
        usleep(200_000);
    }
}
