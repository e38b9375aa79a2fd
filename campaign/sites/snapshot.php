<?php

// Boots once in the PHP host. Each request of campaign/sites.py is answered by front.php in a copy of this process.

declare(strict_types=1);

require __DIR__ . '/app.php';

if (is_file(__DIR__ . '/../refuse-to-boot')) {
    exit(3);
}
stoker_handle(function (): void {
    require __DIR__ . '/front.php';
}, sample: '/?n=sample&fill=100');
