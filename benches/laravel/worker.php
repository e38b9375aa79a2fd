<?php

// The worker command of `stoker serve`: the same application, booted once.

$app = require __DIR__ . '/bootstrap.php';

(new Stoker\Laravel\ResidentWorker($app))->run();
