<?php

// The application with a web page: `/hello`, behind the middleware that each new Laravel application has. Its
// configuration is cached, as in production.

$app = require __DIR__ . '/bootstrap.php';
require_once __DIR__ . '/Page.php';
$app->singleton(Illuminate\Contracts\Http\Kernel::class, Bench\Page::class);
$app->booted(static function () use ($app): void {
    $app['router']->get('/hello', static fn () => 'Hello world')->middleware(Illuminate\Routing\Middleware\SubstituteBindings::class);
});

return $app;
