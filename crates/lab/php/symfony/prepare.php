<?php

// Compiles the container and the routes, as `cache:warmup` does.

if (!stream_resolve_include_path('Symfony/Bundle/FrameworkBundle/autoload.php')) {
    fwrite(STDERR, "it needs Debian's package php-symfony-framework-bundle\n");
    exit(1);
}
require __DIR__ . '/vendor/autoload.php';

$kernel = new App\Kernel('prod', false);
$kernel->handle(Symfony\Component\HttpFoundation\Request::create('/'));
