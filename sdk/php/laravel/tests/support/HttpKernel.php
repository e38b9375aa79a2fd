<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Foundation\Http\Kernel;

/** The HTTP kernel of the tests' application. */
final class HttpKernel extends Kernel
{
    protected $middleware = [TerminableMiddleware::class];

    protected $middlewareGroups = [
        'web' => [
            \Illuminate\Cookie\Middleware\EncryptCookies::class,
            \Illuminate\Cookie\Middleware\AddQueuedCookiesToResponse::class,
            \Illuminate\Session\Middleware\StartSession::class,
            \Illuminate\View\Middleware\ShareErrorsFromSession::class,
        ],
    ];
}
