<?php

// Writes megabytes to both standard streams.

declare(strict_types=1);

require __DIR__ . '/serve.php';

serve(static function (): string {
    foreach (['out', 'err'] as $name) {
        // The standard output of php-cgi begins with the head of an answer, which PHP writes.
        $stream = fopen($name === 'out' && PHP_SAPI === 'cgi-fcgi' ? 'php://output' : "php://std$name", 'w');
        for ($line = 0; $line < 20000; $line++) {
            fprintf($stream, "%s %0100d\n", $name, $line);
        }
    }

    return 'flooded';
});
