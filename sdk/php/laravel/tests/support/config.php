<?php

// The complete configuration of the tests' application, in the form of Laravel's configuration cache.

$storage = getenv('APP_STORAGE');

return [
    'app' => [
        'name' => 'tests',
        'env' => 'production',
        'debug' => false,
        'timezone' => 'UTC',
        'locale' => 'en',
        'fallback_locale' => 'en',
        'key' => 'base64:' . base64_encode(str_repeat('k', 32)),
        'cipher' => 'AES-256-CBC',
        'aliases' => [],
        'providers' => [
            Illuminate\Bus\BusServiceProvider::class,
            Illuminate\Cache\CacheServiceProvider::class,
            Illuminate\Database\DatabaseServiceProvider::class,
            Illuminate\Encryption\EncryptionServiceProvider::class,
            Illuminate\Filesystem\FilesystemServiceProvider::class,
            Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
            Illuminate\Foundation\Providers\FoundationServiceProvider::class,
            Illuminate\Pipeline\PipelineServiceProvider::class,
            Illuminate\Queue\QueueServiceProvider::class,
            Illuminate\View\ViewServiceProvider::class,
            Stoker\Laravel\ServiceProvider::class,
            // Laravel 11 and later.
            ...array_filter([Illuminate\Log\Context\ContextServiceProvider::class], 'class_exists'),
        ],
    ],
    // In files, because locks and queue:restart must be visible to all processes.
    'cache' => ['default' => 'file', 'prefix' => '', 'stores' => ['file' => ['driver' => 'file', 'path' => "$storage/cache"]]],
    'database' => [
        'default' => 'sqlite',
        'connections' => ['sqlite' => ['driver' => 'sqlite', 'database' => "$storage/db.sqlite", 'prefix' => '']],
    ],
    'logging' => [
        'default' => 'single',
        'deprecations' => 'single',
        'channels' => ['single' => ['driver' => 'single', 'path' => "$storage/laravel.log"]],
    ],
    'queue' => [
        'default' => 'stoker',
        'connections' => [
            // In workers, Stoker sets STOKER_SOCKET; in the process of the tests, this is the socket of FakeServer.
            'stoker' => ['driver' => 'stoker', 'socket' => getenv('STOKER_SOCKET') ?: "$storage/server.sock"],
            'live' => ['driver' => 'stoker', 'socket' => "$storage/stoker.sock", 'block_for' => 1],
            'database' => ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default', 'retry_after' => 90],
        ],
        'batching' => ['database' => 'sqlite', 'table' => 'job_batches'],
        'failed' => ['driver' => 'database-uuids', 'database' => 'sqlite', 'table' => 'failed_jobs'],
    ],
    'view' => ['paths' => [], 'compiled' => $storage],
];
