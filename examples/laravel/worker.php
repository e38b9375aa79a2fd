<?php

// The worker that `stoker serve` starts. It boots the application once and serves its jobs, calls and requests.

$app = require __DIR__ . '/bootstrap/app.php';

(new Stoker\Laravel\ResidentWorker($app))
    ->onCall('orders.total', App\Calls\OrderTotal::class)
    ->onRequest()
    ->run();
