<?php

// Can't warm up before its processes are forked.

declare(strict_types=1);

require __DIR__ . '/serve.php';

Stoker\beforeFork(static fn () => throw new RuntimeException('there is nothing to warm up'));
serve();
