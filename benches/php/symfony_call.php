<?php

// Calls `bench.echo`, whose payload is a path, answered by the lab's Symfony application: by a worker of the SDK, or in Stoker's PHP host.

require getenv('LAB_APPLICATION') . '/vendor/autoload.php';

use Symfony\Component\HttpFoundation\Request;

$kernel = new App\Kernel('prod', false);
$handle = static function (string $path) use ($kernel): string {
    $request = Request::create($path);
    $response = $kernel->handle($request);
    $kernel->terminate($request, $response);

    return $response->getContent();
};
// The second request does what the first one does not: it resets the services.
$warm = static function () use ($handle): void {
    $handle('/');
    $handle('/');
};

require dirname(__DIR__, 2) . '/sdk/php/src/autoload.php';
Stoker\beforeFork($warm);
if (function_exists('stoker_handle')) {
    stoker_handle($handle, sample: '/');
} else {
    Stoker\Worker::create()->onCall('bench.echo', static fn (Stoker\Task $task) => $handle($task->body()))->run();
}
