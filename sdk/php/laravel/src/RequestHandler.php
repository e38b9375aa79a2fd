<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Contracts\Foundation\Application;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request as LaravelRequest;
use Illuminate\Http\UploadedFile as LaravelFile;
use Stoker\Http\BadRequest;
use Stoker\Http\HttpFoundation;
use Stoker\Http\Request;
use Symfony\Component\HttpFoundation\Response;

/**
 * Serves the requests of a Laravel application, which is booted once:
 *
 *     $worker = Stoker\Worker::create();   // before the application boots
 *     $worker->onRequest(new Stoker\Laravel\RequestHandler($app))->run();
 *
 * Each request runs in a copy of the application. Bindings that it adds, and singletons that it is the first to resolve,
 * are gone after it; configuration, guards, session, queued cookies, locale, data shared with views and the URL generator
 * begin anew. Other instances that were resolved before, and static variables, are shared by all requests.
 *
 * Terminable middleware and `terminating` callbacks run after the response has been sent.
 */
final class RequestHandler
{
    private Kernel $kernel;
    private LaravelRequest $outside;
    private RequestState $state;
    private Upkeep $upkeep;

    /** @param Application $app may have been bootstrapped already, by ResidentWorker for example */
    public function __construct(private Application $app)
    {
        // Providers register other services on the command line. This has no effect on an application that has asked.
        $_ENV['APP_RUNNING_IN_CONSOLE'] ??= false;
        if (! $app->bound('request')) {
            $app->instance('request', LaravelRequest::create('http://localhost'));
        }
        $this->kernel = $app->make(Kernel::class);
        $this->kernel->bootstrap();
        $this->outside = $app->make('request');
        $this->state = new RequestState($app);
        $this->upkeep = new Upkeep($app);
    }

    /** @throws BadRequest the request is malformed */
    public function __invoke(Request $request): Response
    {
        // Laravel replaces the input by the body if that is JSON.
        $made = LaravelRequest::createFromBase(HttpFoundation::request($request, fileClass: LaravelFile::class));
        $response = null;
        $this->app->forgetScopedInstances();
        $this->app->instance('request', $made); // For code that holds the original application.
        $this->state->forget($this->app);
        $sandbox = new Sandbox($this->app);
        $request->afterResponse(function () use ($made, &$response, $sandbox): void {
            try {
                $response === null || $this->kernel->terminate($made, $response);
            } finally {
                $this->leave($sandbox, $made);
            }
        });
        $this->state->enter($sandbox->app, $made);

        return $response = $this->kernel->handle($made);
    }

    private function leave(Sandbox $sandbox, LaravelRequest $made): void
    {
        $this->upkeep->closeTransactions("{$made->getMethod()} {$made->getPathInfo()}");
        // A route keeps its controller, which has been made with the sandbox.
        $route = $made->route();
        is_object($route) && method_exists($route, 'flushController') && $route->flushController();
        $this->state->leave($this->app);
        $sandbox->leave();
        $this->app->instance('request', $this->outside);
        $this->state->forget($this->app);
    }
}
