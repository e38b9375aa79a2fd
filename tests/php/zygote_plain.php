<?php

// A worker without anything special, for a PHP without extensions.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Worker::create()->onCall('t.run', static fn (): string => 'answer')->run();
