<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Queue\Attributes\Delay;

#[Delay(30)]
final class LateAct extends Act
{
}
