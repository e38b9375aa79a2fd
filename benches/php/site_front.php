<?php
// Answers the same requests under php-fpm, for benches/harness/sites.py.
require getenv('BENCH_PHP') . '/site_answers.php';

$path = strtok($_SERVER['REQUEST_URI'], '?');
header('content-type: text/plain; charset=UTF-8');
echo match ($path) {
    '/upload' => strlen(file_get_contents('php://input')),
    '/form' => $_FILES['file']['size'],
    '/sendfile' => header('X-Accel-Redirect: /1m.bin') ?? '',
    default => answer_to($path),
};
