<?php

return [
    'default' => env('QUEUE_CONNECTION', 'stoker'),

    'connections' => [
        'stoker' => [
            'driver' => 'stoker',
            'socket' => env('STOKER_SOCKET'),
            'queue' => 'default',
            // A job that ended so many workers' processes is failed, failed() and failed_jobs included.
            'crashes' => 3,
        ],

        // What the demo measures Stoker against.
        'database' => [
            'driver' => 'database',
            'table' => 'jobs',
            'queue' => 'default',
            'retry_after' => 90,
        ],
    ],

    'failed' => [
        'driver' => 'database-uuids',
        'database' => 'sqlite',
        'table' => 'failed_jobs',
    ],
];
