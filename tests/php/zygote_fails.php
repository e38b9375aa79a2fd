<?php

// A zygote whose application can't boot.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

echo "booting\n";
throw new RuntimeException('there is no database');
