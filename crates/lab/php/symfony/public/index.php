<?php

require dirname(__DIR__) . '/vendor/autoload.php';

$kernel = new App\Kernel('prod', false);
$request = Symfony\Component\HttpFoundation\Request::createFromGlobals();
$response = $kernel->handle($request)->send();
$kernel->terminate($request, $response);
