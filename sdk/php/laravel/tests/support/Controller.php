<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Container\Container;
use Illuminate\Http\Request;

/** Reports with which objects it was made. */
final class Controller
{
    private int $calls = 0;

    public function __construct(private Container $app, private Request $request)
    {
    }

    public function __invoke(Request $request): array
    {
        return [++$this->calls, $this->app === app(), $this->request === $request];
    }
}
