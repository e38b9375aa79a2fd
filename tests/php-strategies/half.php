<?php

// Dies after it has written a part of an answer.

declare(strict_types=1);

require __DIR__ . '/serve.php';

serve(static function (): void {
    echo 'half';
    if (isset($_SERVER['REQUEST_METHOD'])) {
        flush();
        posix_kill(getmypid(), 9); // SIGKILL, which php-fpm does not define
    }
    // To the server: the length of a frame that does not follow.
    foreach (scandir('/proc/self/fd') as $fd) {
        if (str_starts_with((string) @readlink("/proc/self/fd/$fd"), 'socket:')) {
            fwrite(fopen("php://fd/$fd", 'w'), "\x20\0\0\0");
        }
    }
    posix_kill(getmypid(), 9);
});
