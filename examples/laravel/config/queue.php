<?php

return [
    'default' => env('QUEUE_CONNECTION', 'stoker'),

    'connections' => [
        'stoker' => [
            'driver' => 'stoker',
            'socket' => env('STOKER_SOCKET'),
            'queue' => 'default',
            // Pushes are repeated for up to 30 seconds, so they survive a restart of Stoker. Each job arrives once.
            'reconnect_for' => 30,
            // Number of workers that may die on a job. Then the job fails and its failed() is called.
            'crashes' => 3,
        ],

        // The demo compares Stoker with this driver.
        'database' => [
            'driver' => 'database',
            'table' => 'jobs',
            'queue' => 'default',
            'retry_after' => 90,
        ],
    ],

    // Failed jobs stay in Stoker, so queue:failed, queue:retry and related commands need no table.
    'failed' => ['driver' => 'stoker'],
];
