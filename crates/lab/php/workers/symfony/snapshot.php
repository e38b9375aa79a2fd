<?php

// Boots a Symfony application in Stoker's PHP host.

require getenv('LAB_APPLICATION') . '/vendor/autoload.php';

$kernel = new App\Kernel('prod', false);
$kernel->boot();
stoker_before_fork(static function () use ($kernel): void {
    // The second request does what the first one does not: it resets the services.
    foreach ([1, 2] as $_) {
        $kernel->handle(Symfony\Component\HttpFoundation\Request::create(getenv('LAB_PATH')));
    }
});
stoker_handle(static function () use ($kernel): void {
    $request = Symfony\Component\HttpFoundation\Request::createFromGlobals();
    $response = $kernel->handle($request)->send();
    $kernel->terminate($request, $response);
}, sample: getenv('LAB_PATH'));
