<?php

// The worker of a site: the same application, booted once.

require_once __DIR__ . '/../../sdk/php/src/autoload.php';
$worker = Stoker\Worker::create();
$app = require __DIR__ . '/http.php';
$worker->onRequest(new Stoker\Laravel\RequestHandler($app))->run();
