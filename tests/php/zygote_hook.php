<?php

// A hook for forked processes that fails.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\afterFork(static fn () => throw new RuntimeException('cannot reconnect'));
Stoker\Worker::create()->onCall('t.run', static fn (): string => 'never')->run();
