<?php

// The front controller of campaign/sites.py under php-cgi, php-fpm and php -S.

declare(strict_types=1);

require_once __DIR__ . '/app.php';

if (isset($_SERVER['HTTP_STOKER_NAME'])) {
    require __DIR__ . '/job.php'; // a job, of which php -S gets a request

    return;
}

parse_str((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_QUERY), $query);
$number = $query['n'];
record($number);
obey($query);
[$size, $sum] = sum_of(fopen($_FILES['file']['tmp_name'] ?? 'php://input', 'r'));
$seen = [
    'n' => $number, 'method' => $_SERVER['REQUEST_METHOD'], 'size' => $size, 'sum' => $sum, 'site' => null,
    // php -S is behind a proxy, which is Stoker.
    'client' => $_SERVER['HTTP_X_FORWARDED_FOR'] ?? $_SERVER['REMOTE_ADDR'],
    'scheme' => $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? (empty($_SERVER['HTTPS']) ? 'http' : 'https'),
    'host' => strtok($_SERVER['HTTP_X_FORWARDED_HOST'] ?? $_SERVER['HTTP_HOST'], ':'),
];
header('Content-Type: text/plain');
if (isset($query['file'])) {
    header('X-Sendfile: ' . realpath(__DIR__ . "/../shared/$query[file]"));
} elseif (isset($query['pieces'])) {
    $rest = static fn (float $seconds) => usleep((int) ($seconds * 1e6)) ?? true;
    foreach (pieces($seen, $number, (int) $query['pieces'], (int) $query['fill'], (int) $query['pause'], $rest) as $piece) {
        echo $piece;
        flush();
    }
} else {
    echo whole($seen, $number, (int) $query['fill']);
}
