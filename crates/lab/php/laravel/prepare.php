<?php

// Writes the cached configuration, as `artisan config:cache` does.

if (!stream_resolve_include_path('Illuminate/autoload.php')) {
    fwrite(STDERR, "it needs Debian's package php-laravel-framework\n");
    exit(1);
}
require __DIR__ . '/vendor/autoload.php';

is_dir(__DIR__ . '/storage') || mkdir(__DIR__ . '/storage');
$app = require __DIR__ . '/bootstrap/app.php';
$app->make(Illuminate\Contracts\Console\Kernel::class)->bootstrap();
file_put_contents($app->getCachedConfigPath(), '<?php return ' . var_export($app['config']->all(), true) . ';');
