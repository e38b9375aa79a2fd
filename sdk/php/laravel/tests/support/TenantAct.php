<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

final class TenantAct extends Act
{
    public function stoker(): array
    {
        return ['key' => 'tenant 7', 'tries' => 5];
    }
}
