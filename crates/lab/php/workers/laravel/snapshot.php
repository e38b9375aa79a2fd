<?php

// Boots a Laravel application in Stoker's PHP host.

$folder = getenv('LAB_APPLICATION');
is_file("$folder/vendor/autoload.php") && require "$folder/vendor/autoload.php";
$_ENV['APP_RUNNING_IN_CONSOLE'] ??= false;
$app = require "$folder/bootstrap/app.php";
$kernel = $app->make(Illuminate\Contracts\Http\Kernel::class);
$app->instance('request', Illuminate\Http\Request::create('http://localhost'));
$kernel->bootstrap();
stoker_before_fork(static fn () => $kernel->handle(Illuminate\Http\Request::create(getenv('LAB_PATH'))));
stoker_handle(static function () use ($kernel): void {
    $request = Illuminate\Http\Request::capture();
    $response = $kernel->handle($request)->send();
    $kernel->terminate($request, $response);
}, sample: getenv('LAB_PATH'));
