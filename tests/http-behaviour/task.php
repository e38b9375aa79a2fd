<?php
// Runs calls and jobs. The payload says how.
require __DIR__ . '/../php-strategies/script.php';
