<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldBeUnique;

final class UniqueScripted extends Scripted implements ShouldBeUnique
{
    public function uniqueId(): string
    {
        return $this->name;
    }
}
