<?php

// Takes more memory than PHP allows.

declare(strict_types=1);

require __DIR__ . '/serve.php';

ini_set('memory_limit', '32M');
serve(static function (): void {
    str_repeat('x', 300 << 20);
});
