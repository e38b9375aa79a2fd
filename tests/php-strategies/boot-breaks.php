<?php

// Can't boot any more as soon as there is a file `broken` in its directory.

declare(strict_types=1);

require __DIR__ . '/serve.php';

is_file('broken') && throw new RuntimeException('the new version is broken');
serve();
