<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\Interruptible;

/** Ends what it awaits when a signal comes. */
final class InterruptibleScripted extends Scripted implements Interruptible
{
    public function interrupted(int $signal): void
    {
        Story::tell("$this->name interrupted by $signal");
        touch(getenv('APP_STORAGE') . "/told-$this->name");
    }
}
