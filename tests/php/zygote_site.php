<?php

// Answers the requests of a site in forked processes.

declare(strict_types=1);

use Stoker\Http\Request;

require __DIR__ . '/../../sdk/php/src/autoload.php';

$requests = 0;
Stoker\Worker::create()
    ->onRequest(static function (Request $request) use (&$requests): array {
        return ['path' => $request->path(), 'requests' => ++$requests, 'pid' => getmypid()];
    })
    ->run();
