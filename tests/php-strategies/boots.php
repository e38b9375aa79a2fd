<?php

// Boots.

declare(strict_types=1);

require __DIR__ . '/serve.php';

serve();
