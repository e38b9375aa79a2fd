<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldBeUniqueUntilProcessing;

/** May be pushed again as soon as it has begun. */
final class UniqueUntilScripted extends Scripted implements ShouldBeUniqueUntilProcessing
{
    public function uniqueId(): string
    {
        return $this->name;
    }
}
