<?php

// Kills its process.

declare(strict_types=1);

require __DIR__ . '/serve.php';

serve(static function (): void {
    posix_kill(getmypid(), 9); // SIGKILL, which php-fpm does not define
});
