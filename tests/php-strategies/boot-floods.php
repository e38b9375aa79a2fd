<?php

// Writes megabytes while it boots.

declare(strict_types=1);

require __DIR__ . '/serve.php';

for ($line = 0; $line < 20000; $line++) {
    fprintf(STDERR, "%0100d\n", $line);
}
serve();
