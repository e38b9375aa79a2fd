<?php

declare(strict_types=1);

namespace App;

use Illuminate\Foundation\Http\Kernel as BaseKernel;
use Illuminate\Foundation\Http\Middleware\ConvertEmptyStringsToNull;
use Illuminate\Foundation\Http\Middleware\TrimStrings;
use Illuminate\Foundation\Http\Middleware\ValidatePostSize;

final class Kernel extends BaseKernel
{
    protected $middleware = [ValidatePostSize::class, TrimStrings::class, ConvertEmptyStringsToNull::class];
}
