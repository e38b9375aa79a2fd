<?php

// Builds the application, for artisan, for each resident worker and for the demo.

require __DIR__ . '/autoload.php';

$app = new Illuminate\Foundation\Application(dirname(__DIR__));

// All files that are written at run time go to one directory, so that the checkout stays clean and several copies of
// the application can run at the same time.
$storage = getenv('APP_STORAGE') ?: dirname(__DIR__) . '/storage';
foreach (['packages', 'services', 'config', 'routes', 'events'] as $cache) {
    $_SERVER['APP_' . strtoupper($cache) . '_CACHE'] ??= "$storage/$cache.php";
}
$app->useStoragePath($storage);

$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Http\Kernel::class, Illuminate\Foundation\Http\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
$app->singleton(App\Ledger::class, fn () => new App\Ledger("$storage/ledger.tsv"));

return $app;
