<?php

// Ends while it boots.

declare(strict_types=1);

require __DIR__ . '/serve.php';

echo "booting\n";
exit(7);
