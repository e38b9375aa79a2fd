<?php

// The producer of the demo: a process of its own, so that jobs are pushed while calls are made.

$app = require dirname(__DIR__) . '/bootstrap/app.php';
$app->make(Illuminate\Contracts\Console\Kernel::class)->bootstrap();
Demo\Mix::push();
