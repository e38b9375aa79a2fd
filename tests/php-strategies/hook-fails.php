<?php

// Can't prepare the processes that are forked.

declare(strict_types=1);

require __DIR__ . '/serve.php';

Stoker\afterFork(static fn () => throw new RuntimeException('cannot reconnect'));
serve();
