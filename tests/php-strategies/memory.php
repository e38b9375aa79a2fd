<?php

// Takes more memory than the pool allows, and keeps it.

declare(strict_types=1);

require __DIR__ . '/serve.php';

ini_set('memory_limit', '-1');
serve(static function (): void {
    $all = str_repeat('x', 300 << 20);
    sleep(1000);
    echo strlen($all);
});
