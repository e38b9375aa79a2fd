<?php

return [
    'default' => getenv('DB_CONNECTION') ?: 'sqlite',
    'connections' => [
        'sqlite' => ['driver' => 'sqlite', 'database' => storage_path('database.sqlite'), 'prefix' => ''],
        'pgsql' => [
            'driver' => 'pgsql', 'host' => getenv('BENCH_SERVER'), 'port' => 5432, 'database' => 'postgres',
            'username' => 'postgres', 'password' => '', 'charset' => 'utf8', 'prefix' => '', 'schema' => 'public',
            'sslmode' => 'prefer',
            // Laravel prepares each statement again, so preparing on the server only costs a round trip.
            'options' => getenv('BENCH_TUNED') === '1' ? [PDO::ATTR_EMULATE_PREPARES => true] : [],
        ],
    ],
    'migrations' => 'migrations',
    'redis' => [
        'client' => 'phpredis',
        'options' => ['prefix' => 'bench_'],
        'default' => ['host' => getenv('BENCH_SERVER'), 'port' => (int) getenv('BENCH_PORT'), 'password' => null, 'database' => 0],
    ],
];
