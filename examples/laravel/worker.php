<?php

// What `stoker serve` keeps running: the application, booted once, serving jobs and calls.

$app = require __DIR__ . '/bootstrap/app.php';

(new Stoker\Laravel\ResidentWorker($app))
    ->onCall('orders.total', App\Calls\OrderTotal::class)
    ->run();
