<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldBeUnique;

final class UniqueAct extends Act implements ShouldBeUnique
{
}
