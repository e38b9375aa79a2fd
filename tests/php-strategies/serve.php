<?php

// Runs tasks by the strategy of the pool, so that the other files of this folder run by each strategy.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

/** @param ?callable(): mixed $act runs the tasks with the payload "act" */
function serve(?callable $act = null): void
{
    $booted = getmypid();
    $run = static function (string $payload) use ($booted, $act): string {
        switch ($payload) {
            case 'act':
                return (string) $act();
            case 'wait':
                file_get_contents(($_GET['folder'] ?? '.') . '/gate'); // a FIFO, until the test has opened and closed it
                break;
            case 'who':
                return json_encode(['pid' => getmypid(), 'booted' => $booted]);
        }

        return "done: $payload";
    };
    if (getenv('STOKER_ZYGOTE') !== false && function_exists('stoker_handle')) {
        stoker_handle(static fn (?string $payload): string => $run((string) $payload)); // snapshot
    } elseif (function_exists('stoker_payload')) {
        echo $run(stoker_payload()); // sapi
    } elseif (isset($_SERVER['REQUEST_METHOD'])) {
        echo $run($GLOBALS['payload'] ?? file_get_contents('php://input')); // cgi, fastcgi, http
    } elseif (getenv('STOKER_NAME') !== false) {
        echo $run(stream_get_contents(STDIN)); // exec
    } else {
        $handler = static fn (Task $task): string => $run($task->body());
        Worker::create()->onCall('t.run', $handler)->onJob('*', $handler)->run(); // loop, spare, fork
    }
}
