<?php

// Can't boot any more as soon as there is a file `broken` in its directory.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

is_file('broken') && throw new RuntimeException('the new version is broken');
$zygote = getmypid();
Stoker\Worker::create()->onCall('t.run', static fn (): string => (string) $zygote)->run();
