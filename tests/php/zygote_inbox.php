<?php

// An Inbox in a pool with the strategy fork.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Inbox::open();
