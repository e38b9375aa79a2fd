<?php

declare(strict_types=1);

// Boots a Laravel application. The process of the tests first creates the application's directory, and removes it at
// the end. Workers that the tests start find the directory in APP_STORAGE.

$storage = getenv('APP_STORAGE');
if ($storage === false) {
    $storage = sys_get_temp_dir() . '/stoker-laravel-tests-' . getmypid();
    mkdir($storage, 0700);
    mkdir("$storage/sessions");
    touch("$storage/db.sqlite");
    putenv("APP_STORAGE=$storage");
    $remove = static function (int $owner) use ($storage): void {
        if (getmypid() === $owner) {
            (new Illuminate\Filesystem\Filesystem())->deleteDirectory($storage);
        }
    };
    // Registered from within a shutdown function, so that it runs last: until then a server may write to the
    // directory.
    register_shutdown_function('register_shutdown_function', $remove, getmypid());
}

$_SERVER['APP_CONFIG_CACHE'] = __DIR__ . '/config.php';
foreach (['PACKAGES', 'SERVICES', 'ROUTES', 'EVENTS'] as $cache) {
    $_SERVER["APP_{$cache}_CACHE"] = "$storage/$cache.php";
}

if (method_exists(Illuminate\Foundation\Application::class, 'configure')) {
    // Since Laravel 11, bootstrap/app.php contains only this.
    $app = Illuminate\Foundation\Application::configure($storage)->withExceptions()->create()->useStoragePath($storage);
    $app->singleton(Illuminate\Contracts\Http\Kernel::class, Stoker\Laravel\Tests\HttpKernel::class);

    return $app;
}
$app = new Illuminate\Foundation\Application($storage);
$app->useStoragePath($storage);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Http\Kernel::class, Stoker\Laravel\Tests\HttpKernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $app;
