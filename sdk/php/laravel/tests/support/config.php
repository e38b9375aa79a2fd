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
            Carbon\Laravel\ServiceProvider::class,
            Illuminate\Auth\AuthServiceProvider::class,
            Illuminate\Bus\BusServiceProvider::class,
            Illuminate\Cache\CacheServiceProvider::class,
            Illuminate\Cookie\CookieServiceProvider::class,
            Illuminate\Database\DatabaseServiceProvider::class,
            Illuminate\Encryption\EncryptionServiceProvider::class,
            Illuminate\Filesystem\FilesystemServiceProvider::class,
            Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
            Illuminate\Foundation\Providers\FoundationServiceProvider::class,
            Illuminate\Hashing\HashServiceProvider::class,
            Illuminate\Pagination\PaginationServiceProvider::class,
            Illuminate\Pipeline\PipelineServiceProvider::class,
            Illuminate\Queue\QueueServiceProvider::class,
            Illuminate\Session\SessionServiceProvider::class,
            Illuminate\Translation\TranslationServiceProvider::class,
            Illuminate\Validation\ValidationServiceProvider::class,
            Illuminate\View\ViewServiceProvider::class,
            Stoker\Laravel\ServiceProvider::class,
            // Laravel 11 and later.
            ...array_filter([Illuminate\Log\Context\ContextServiceProvider::class], 'class_exists'),
        ],
    ],
    'auth' => [
        'defaults' => ['guard' => 'web'],
        'guards' => ['web' => ['driver' => 'session', 'provider' => 'users'], 'other' => ['driver' => 'session', 'provider' => 'users']],
        'providers' => ['users' => ['driver' => 'tests']],
    ],
    'hashing' => ['driver' => 'bcrypt', 'bcrypt' => ['rounds' => 4]],
    'session' => [
        'driver' => 'file', 'files' => "$storage/sessions", 'lifetime' => 120, 'expire_on_close' => false, 'lottery' => [0, 100],
        'cookie' => 'session', 'path' => '/', 'domain' => null, 'secure' => true, 'http_only' => true, 'same_site' => 'lax', 'encrypt' => false,
    ],
    // In files, because locks and queue:restart must be visible to all processes.
    'cache' => ['default' => 'file', 'prefix' => '', 'stores' => [
        'file' => ['driver' => 'file', 'path' => "$storage/cache"],
        'array' => ['driver' => 'array'],
    ]],
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
    'view' => ['paths' => ["$storage/views"], 'compiled' => $storage],
];
