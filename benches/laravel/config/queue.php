<?php

$tuned = getenv('BENCH_TUNED') === '1';

return [
    'default' => getenv('QUEUE_CONNECTION') ?: 'stoker',
    'connections' => [
        'stoker' => ['driver' => 'stoker', 'socket' => getenv('STOKER_SOCKET') ?: null, 'queue' => 'default'],
        'database' => ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default', 'retry_after' => 90],
        'redis' => [
            'driver' => 'redis', 'connection' => 'default', 'queue' => 'default', 'retry_after' => 90,
            'block_for' => $tuned ? 1 : null,
        ],
    ],
    'failed' => ['driver' => 'null'],
];
