<?php

return [
    'default' => env('QUEUE_CONNECTION', 'stoker'),

    'connections' => [
        'stoker' => [
            'driver' => 'stoker',
            'socket' => env('STOKER_SOCKET'),
            'queue' => 'default',
            // A push survives a restart of Stoker: it is repeated, and arrives once.
            'reconnect_for' => 30,
            // A job that ended so many workers' processes is failed, its failed() included.
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

    // Failed jobs stay in Stoker: queue:failed, queue:retry and their kin need no table.
    'failed' => ['driver' => 'stoker'],
];
