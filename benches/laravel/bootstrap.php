<?php

// The smallest Laravel application that can run jobs, from Debian's packages. It is the same for all contenders: only
// QUEUE_CONNECTION and DB_CONNECTION differ. Env BENCH_FOLDER: a writable folder.

// Debian's packages and PHP 8.2 disagree about return types; these deprecation notices do not concern this application.
error_reporting(E_ALL & ~E_DEPRECATED);
require 'Illuminate/autoload.php';
require __DIR__ . '/../../sdk/php/laravel/autoload.php';
require __DIR__ . '/Hello.php';
require __DIR__ . '/Tuning.php';

$folder = getenv('BENCH_FOLDER') ?: throw new RuntimeException('BENCH_FOLDER names no folder');
foreach (['packages', 'services', 'config', 'routes', 'events'] as $cache) {
    $_SERVER['APP_' . strtoupper($cache) . '_CACHE'] ??= "$folder/$cache.php";
}
$app = new Illuminate\Foundation\Application(__DIR__);
$app->useStoragePath($folder);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $app;
