<?php

declare(strict_types=1);

// Boots a Laravel application in a directory of its own, that goes when the tests end.

$storage = sys_get_temp_dir() . '/stoker-laravel-tests-' . getmypid();
mkdir($storage, 0700);
touch("$storage/db.sqlite");
putenv("APP_STORAGE=$storage");
$owner = getmypid();
register_shutdown_function(static function () use ($storage, $owner): void {
    if (getmypid() === $owner) {
        array_map('unlink', glob("$storage/*"));
        rmdir($storage);
    }
});

$_SERVER['APP_CONFIG_CACHE'] = __DIR__ . '/config.php';
foreach (['PACKAGES', 'SERVICES', 'ROUTES', 'EVENTS'] as $cache) {
    $_SERVER["APP_{$cache}_CACHE"] = "$storage/$cache.php";
}

$app = new Illuminate\Foundation\Application($storage);
$app->useStoragePath($storage);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $app;
