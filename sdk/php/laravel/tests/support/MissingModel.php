<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Database\Eloquent\ModelNotFoundException;

/** A job whose model no longer exists when it runs. */
class MissingModel extends Act
{
    public function __unserialize(array $data): void
    {
        throw (new ModelNotFoundException())->setModel('Order', [7]);
    }
}
