<?php

// A resident worker of campaign/sites.py.

declare(strict_types=1);

use Stoker\Http\Request;
use Stoker\Http\Response;

require getenv('STOKER_SDK');
require __DIR__ . '/app.php';

if (is_file(__DIR__ . '/../refuse-to-boot')) {
    exit(3);
}
Stoker\Worker::create()->onRequest(function (Request $request): mixed {
    $query = $request->query();
    $number = $query['n'];
    record($number);
    obey($query);
    $file = $request->files()['file'] ?? null;
    [$size, $sum] = $file ? sum_of(fopen($file->path, 'r')) : sum_of($request->bodyStream());
    $seen = [
        'n' => $number, 'method' => $request->method(), 'host' => $request->host(), 'client' => $request->clientAddress(),
        'scheme' => $request->scheme(), 'size' => $size, 'sum' => $sum, 'site' => $request->site(),
    ];
    if (isset($query['file'])) {
        return Response::file(__DIR__ . "/../shared/$query[file]");
    }
    if (isset($query['pieces'])) {
        $rest = static fn (float $seconds) => $request->task()->rest($seconds);

        return new Response(200, ['content-type' => 'text/plain'], pieces($seen, $number, (int) $query['pieces'], (int) $query['fill'], (int) $query['pause'], $rest));
    }

    return new Response(200, ['content-type' => 'text/plain'], whole($seen, $number, (int) $query['fill']));
})->run();
