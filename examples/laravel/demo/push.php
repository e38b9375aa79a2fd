<?php

// The producer of the demo. It runs in its own process, so that jobs are pushed while the demo makes calls.

$app = require dirname(__DIR__) . '/bootstrap/app.php';
$app->make(Illuminate\Contracts\Console\Kernel::class)->bootstrap();
Demo\Mix::push();
