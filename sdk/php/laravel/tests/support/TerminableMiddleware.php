<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Container\Container;

/** Records that a response was terminated, and in which application. */
final class TerminableMiddleware
{
    /** @var list<string> */
    public static array $terminated = [];

    public function __construct(private Container $app)
    {
    }

    public function handle($request, \Closure $next)
    {
        return $next($request);
    }

    public function terminate($request, $response): void
    {
        self::$terminated[] = "{$request->path()} {$response->getStatusCode()}" . ($this->app === app() ? '' : ' in another application');
    }
}
