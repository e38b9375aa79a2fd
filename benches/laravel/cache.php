<?php

// Writes the cached configuration, as `artisan config:cache` does.

$app = require __DIR__ . '/bootstrap.php';
$app->make(Illuminate\Contracts\Console\Kernel::class)->bootstrap();
$path = $app->getCachedConfigPath();
file_put_contents($path, '<?php return ' . var_export($app['config']->all(), true) . ';');
