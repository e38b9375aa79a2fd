<?php

// Crashes its process.

declare(strict_types=1);

require __DIR__ . '/serve.php';

serve(static function (): void {
    posix_kill(getmypid(), 11); // SIGSEGV, which php-fpm does not define
    sleep(1000);
});
