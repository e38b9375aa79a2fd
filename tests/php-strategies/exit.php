<?php

// Ends in the middle of a task.

declare(strict_types=1);

require __DIR__ . '/serve.php';

serve(static function (): never {
    exit(3);
});
