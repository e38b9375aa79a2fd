<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Carbon\Laravel\ServiceProvider as CarbonServiceProvider;
use Illuminate\Container\Container;
use Illuminate\Contracts\Auth\Access\Gate;
use Illuminate\Contracts\Broadcasting\Factory as Broadcasting;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Contracts\Pipeline\Hub;
use Illuminate\Contracts\Routing\ResponseFactory;
use Illuminate\Http\Request;
use Illuminate\Notifications\ChannelManager;
use Illuminate\Pagination\PaginationState;
use Illuminate\Support\Manager;
use Illuminate\Support\Once;
use Illuminate\Support\Str;

/**
 * Keeps the state of a request out of the services that all requests share.
 *
 * Only services that have been resolved are touched. Methods that some versions of Laravel do not have are skipped.
 *
 * @internal
 */
final class RequestState
{
    /** Services that are resolved before the first request, because a copy of the application would resolve them each time. */
    private const SHARED = [
        'auth', 'cache', 'cookie', 'db', 'encrypter', 'events', 'files', 'hash', 'log', 'router', 'session', 'translator',
        'url', 'validator', 'view',
    ];
    /** Services that keep a reference to the application, which must be the copy while a request runs. */
    private const HOLDERS = [
        'auth', 'cache', 'db', 'filesystem', 'log', 'mail.manager', 'queue', 'router', 'session', 'validator', 'view',
        Broadcasting::class, ChannelManager::class, ExceptionHandler::class, Gate::class, Hub::class, Kernel::class,
    ];

    /** @var array<string, mixed> data that the application shares with all views */
    private array $viewData = [];
    private string $locale;

    public function __construct(Application $app)
    {
        foreach (self::SHARED as $name) {
            try {
                $app->bound($name) && $app->make($name);
            } catch (\Throwable) {
                // It is not configured. If a request uses it, that request fails with this error.
            }
        }
        foreach ($app->getProviders(CarbonServiceProvider::class) as $provider) {
            // It follows the locale of the application that it asks, which must be the request's application.
            method_exists($provider, 'setAppGetter') && $provider->setAppGetter(static fn () => Container::getInstance());
        }
        $this->viewData = $app->resolved('view') ? $app->make('view')->getShared() : [];
        $this->locale = (string) $app['config']['app.locale'];
    }

    /** Prepares the services for a request, which runs in this copy of the application. */
    public function enter(Application $copy, Request $request): void
    {
        $copy->instance('config', clone $copy['config']);
        if ($copy->resolved('url')) {
            $url = clone $copy->make('url');
            $url->setRequest($request);
            $copy->instance('url', $url);
        }
        // These refer to the URL generator, the session or the user of the original.
        array_map([$copy, 'forgetInstance'], ['redirect', ResponseFactory::class, 'session.store', 'auth.driver']);
        $this->hold($copy);
        if ($copy->resolved('view')) {
            $copy->make('view')->share('app', $copy);
        }
        if (class_exists(PaginationState::class)) {
            PaginationState::resolveUsing($copy); // It is static, so another application may have set it.
        }
    }

    /** Makes the services use the application itself again. */
    public function leave(Application $app): void
    {
        $this->hold($app);
        if (class_exists(PaginationState::class)) {
            PaginationState::resolveUsing($app);
        }
    }

    /** Removes what a request or a job has left in the services. */
    public function forget(Application $app): void
    {
        self::call($app, 'auth', 'forgetGuards');
        self::call($app, 'session', 'forgetDrivers');
        self::call($app, 'cookie', 'flushQueuedCookies');
        self::call($app, 'mail.manager', 'forgetMailers');
        self::call($app, ChannelManager::class, 'forgetDrivers');
        self::call($app, 'log', 'flushSharedContext');
        // LogManager forwards `withoutContext()` to its default channel, which may be a custom logger without that method.
        if ($app->resolved('log') && method_exists($app->make('log')->driver(), 'withoutContext')) {
            $app->make('log')->withoutContext();
        }
        $this->forgetLocale($app);
        $this->forgetViewData($app);
        $this->forgetQueries($app);
        if ($app->resolved('cache') && isset($app['config']['cache.stores']['array'])) {
            $app->make('cache')->store('array')->flush(); // It is meant to last for one request.
        }
        method_exists(Str::class, 'flushCache') && Str::flushCache();
        class_exists(Once::class) && Once::flush();
    }

    private function forgetLocale(Application $app): void
    {
        if ($app->resolved('translator') && $app->make('translator')->getLocale() !== $this->locale) {
            $app->setLocale($this->locale); // Reports it to others, such as Carbon.
        }
    }

    private function forgetViewData(Application $app): void
    {
        if ($app->resolved('view')) {
            $view = $app->make('view');
            $view->flushState();
            $data = $this->viewData;
            (function () use ($data): void {
                $this->shared = $data;
            })->call($view);
        }
    }

    private function forgetQueries(Application $app): void
    {
        foreach ($app->resolved('db') ? $app->make('db')->getConnections() : [] as $connection) {
            $connection->flushQueryLog();
            method_exists($connection, 'forgetRecordModificationState') && $connection->forgetRecordModificationState();
        }
    }

    private function hold(Application $app): void
    {
        foreach (self::HOLDERS as $name) {
            if (! $app->resolved($name)) {
                continue;
            }
            $service = $app->make($name);
            match (true) {
                method_exists($service, 'setApplication') => $service->setApplication($app),
                method_exists($service, 'setContainer') => $service->setContainer($app),
                default => self::set($service, 'container', $app),
            };
            if ($service instanceof Manager) {
                self::set($service, 'config', $app['config']);
            }
        }
    }

    /** Sets a protected property of an object, if it has it. */
    private static function set(object $service, string $property, object $value): void
    {
        if (property_exists($service, $property)) {
            (function () use ($property, $value): void {
                $this->$property = $value;
            })->call($service);
        }
    }

    /** Calls a method of a service, if the service has been resolved and has the method. */
    private static function call(Application $app, string $service, string $method): void
    {
        if ($app->resolved($service) && method_exists($service = $app->make($service), $method)) {
            $service->$method();
        }
    }
}
