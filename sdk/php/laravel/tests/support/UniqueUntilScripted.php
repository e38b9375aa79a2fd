<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldBeUniqueUntilProcessing;

/** A unique job that may be pushed again as soon as it has started. */
final class UniqueUntilScripted extends Scripted implements ShouldBeUniqueUntilProcessing
{
    public function uniqueId(): string
    {
        return $this->name;
    }
}
