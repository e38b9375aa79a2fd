<?php

declare(strict_types=1);

// Set-up that worker.php and artisan.php share.

// The process that boots; others may be forked from it.
define('BOOTED', getmypid());
error_reporting(E_ALL & ~E_DEPRECATED);
require getenv('LARAVEL_AUTOLOAD') ?: 'Illuminate/autoload.php';
require __DIR__ . '/../../autoload.php';
foreach (['Story', 'Scripted', 'UniqueScripted', 'UniqueUntilScripted', 'EncryptedScripted', 'HttpKernel', 'TerminableMiddleware'] as $class) {
    require __DIR__ . "/$class.php";
}
if (interface_exists(Illuminate\Contracts\Queue\Interruptible::class)) { // Laravel 13.7 and later.
    require __DIR__ . '/InterruptibleScripted.php';
}
// The tests enable maintenance mode and expect it to take effect at the next job.
Stoker\Laravel\Upkeep::$every = 0;
