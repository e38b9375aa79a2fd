<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Bus\Dispatcher;
use Illuminate\Container\Container;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Support\Facades\Facade;

/** A copy of the application that replaces the application until leave() is called. @internal */
final class Sandbox
{
    public readonly Application $app;

    public function __construct(private Application $original)
    {
        $this->app = clone $original;
        $this->app->instance('app', $this->app);
        $this->app->instance(Container::class, $this->app);
        // The dispatcher runs the jobs and has a reference to the container that resolves the parameters of handle().
        $this->app->forgetInstance(Dispatcher::class);
        $this->enter($this->app);
    }

    public function leave(): void
    {
        $this->app->flush();
        $this->enter($this->original);
    }

    private function enter(Application $app): void
    {
        Container::setInstance($app);
        Facade::setFacadeApplication($app);
        Facade::clearResolvedInstances();
    }
}
