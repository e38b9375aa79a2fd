<?php

namespace App\Jobs;

use DomainException;

/** Always fails: runs `tries` times, then `failed()` is called. */
final class RefundOrder extends Job
{
    public $tries = 2;

    protected function work(): void
    {
        throw new DomainException("Order {$this->number} was never paid");
    }
}
