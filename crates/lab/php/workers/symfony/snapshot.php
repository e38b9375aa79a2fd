<?php

// Boots a Symfony application in Stoker's PHP host.

require getenv('LAB_APPLICATION') . '/vendor/autoload.php';

$kernel = new App\Kernel('prod', false);
$kernel->boot();
stoker_handle(static function () use ($kernel): void {
    $request = Symfony\Component\HttpFoundation\Request::createFromGlobals();
    $response = $kernel->handle($request)->send();
    $kernel->terminate($request, $response);
}, sample: getenv('LAB_PATH'));
