<?php

// A resident worker for a Symfony application that has none.

$folder = getenv('LAB_APPLICATION');
require "$folder/vendor/autoload.php";
class_exists(Stoker\Worker::class) || require getenv('LAB_SDK') . '/src/autoload.php';

$worker = Stoker\Worker::create();
$kernel = new App\Kernel('prod', false);
Stoker\beforeFork(static function () use ($kernel): void {
    // The second request does what the first one does not: it resets the services.
    foreach ([1, 2] as $_) {
        $kernel->handle(Symfony\Component\HttpFoundation\Request::create(getenv('LAB_PATH')));
    }
});
$worker->onRequest(new Stoker\Http\SymfonyHandler($kernel))->run();
