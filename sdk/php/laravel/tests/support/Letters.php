<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

enum Letters: string
{
    case All = 'letters';
}
