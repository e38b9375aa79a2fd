<?php

// Can't boot.

declare(strict_types=1);

require __DIR__ . '/serve.php';

echo "booting\n";
throw new RuntimeException('there is no database');
