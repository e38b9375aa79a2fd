<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\Interruptible;

/** When a signal arrives, creates the file that its `await` waits for. */
final class InterruptibleScripted extends Scripted implements Interruptible
{
    public function interrupted(int $signal): void
    {
        Story::tell("$this->name interrupted by $signal");
        touch(getenv('APP_STORAGE') . "/told-$this->name");
    }
}
