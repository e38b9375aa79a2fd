<?php

// Writes more than a pipe holds when its last task has been answered.

declare(strict_types=1);

use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()->onCall('t.run', static fn (): string => 'done')->run();
for ($line = 0; $line < 300; $line++) {
    echo str_repeat('x', 1023), "\n";
}
