<?php

// Does not end.

declare(strict_types=1);

require __DIR__ . '/serve.php';

serve(static function (): void {
    while (true) {
    }
});
