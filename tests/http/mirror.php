<?php

/**
 * Answers every request with what it has seen of it, and appends one line for it to the file SEEN: as a worker of the PHP SDK, a
 * script of php-fpm or php-cgi, or the router of `php -S`.
 */

declare(strict_types=1);

use Stoker\Http\Request;
use Stoker\Http\Superglobals;
use Stoker\Worker;

function mirror(string $body): string
{
    file_put_contents((string) getenv('SEEN'), "{$_SERVER['REQUEST_METHOD']} {$_SERVER['REQUEST_URI']}\n", FILE_APPEND | LOCK_EX);
    $fields = array_filter($_SERVER, static fn ($name) => str_starts_with((string) $name, 'HTTP_'), ARRAY_FILTER_USE_KEY);
    $seen = [
        'method' => $_SERVER['REQUEST_METHOD'],
        'target' => $_SERVER['REQUEST_URI'],
        'host' => $_SERVER['HTTP_HOST'] ?? null,
        'https' => $_SERVER['HTTPS'] ?? ($_SERVER['HTTP_X_FORWARDED_PROTO'] ?? 'http'),
        'length' => $_SERVER['CONTENT_LENGTH'] ?? ($_SERVER['HTTP_CONTENT_LENGTH'] ?? null),
        'fields' => array_map(base64_encode(...), $fields),
        'body' => base64_encode($body),
    ];

    return (string) json_encode($seen);
}

if (PHP_SAPI === 'cli') {
    require __DIR__ . '/../../sdk/php/src/autoload.php';
    Worker::create()->onRequest(new Superglobals(static function (Request $request): void {
        echo mirror($request->body());
    }))->run();
} else {
    echo mirror((string) file_get_contents('php://input'));
}
