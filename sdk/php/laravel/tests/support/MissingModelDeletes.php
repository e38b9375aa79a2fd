<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

final class MissingModelDeletes extends MissingModel
{
    public $deleteWhenMissingModels = true;
}
