<?php

// A resident worker for a Laravel application that has none.

$folder = getenv('LAB_APPLICATION');
is_file("$folder/vendor/autoload.php") && require "$folder/vendor/autoload.php";
class_exists(Stoker\Laravel\RequestHandler::class) || require getenv('LAB_SDK') . '/laravel/autoload.php';

$worker = Stoker\Worker::create();
$app = require "$folder/bootstrap/app.php";
$handler = new Stoker\Laravel\RequestHandler($app);
$warm = static fn () => $app->make(Illuminate\Contracts\Http\Kernel::class)->handle(Illuminate\Http\Request::create(getenv('LAB_PATH')));
Stoker\beforeFork($warm);
$worker->onRequest($handler)->run();
