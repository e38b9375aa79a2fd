<?php

return [
    'default' => 'single',
    'deprecations' => 'null',
    'channels' => [
        'single' => ['driver' => 'single', 'path' => storage_path('laravel.log'), 'level' => 'debug'],
        'null' => ['driver' => 'monolog', 'handler' => Monolog\Handler\NullHandler::class],
    ],
];
