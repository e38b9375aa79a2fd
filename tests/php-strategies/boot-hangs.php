<?php

// Does not end booting.

declare(strict_types=1);

require __DIR__ . '/serve.php';

while (true) {
    sleep(1000);
}
