<?php

// A small application, with the global middleware of a new Laravel application and one route.

require_once dirname(__DIR__) . '/bootstrap/Kernel.php';

$folder = dirname(__DIR__);
foreach (['packages', 'services', 'config', 'routes', 'events'] as $cache) {
    $_SERVER['APP_' . strtoupper($cache) . '_CACHE'] ??= "$folder/storage/$cache.php";
}
$app = new Illuminate\Foundation\Application($folder);
$app->singleton(Illuminate\Contracts\Http\Kernel::class, App\Kernel::class);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
$app->booted(static function () use ($app): void {
    $hello = static fn () => response('Hello world', 200, ['content-type' => 'text/plain']);
    $app['router']->get('/', $hello)->middleware(Illuminate\Routing\Middleware\SubstituteBindings::class);
});

return $app;
