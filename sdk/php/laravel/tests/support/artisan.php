<?php

declare(strict_types=1);

// The artisan console of the tests' application.

require __DIR__ . '/boot.php';

$app = require __DIR__ . '/application.php';
$kernel = $app->make(Illuminate\Contracts\Console\Kernel::class);
exit($kernel->handle(new Symfony\Component\Console\Input\ArgvInput(), new Symfony\Component\Console\Output\ConsoleOutput()));
