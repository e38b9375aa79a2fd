<?php
// A worker on another host, for campaign/network.py: php network_worker.php FILE. Appends a line to FILE when a run starts
// and before it answers.

require __DIR__ . '/../sdk/php/src/autoload.php';

$runs = fopen($argv[1], 'a');
$note = static fn (string $line) => fwrite($runs, sprintf("%s %.3f\n", $line, microtime(true)));
$run = static function (Stoker\Task $task) use ($note): string {
    $body = $task->json();
    $what = $task->isJob ? "job {$task->jobId()}" : "call {$body['n']}";
    $note("start $what");
    usleep(random_int(200, $body['us'] ?? 2_000));
    $note("end $what");

    return $task->body();
};
Stoker\Worker::create(pool: 'far', reconnectFor: 120.0, keepalive: 1.0)
    ->onJob('net', $run)
    ->onCall('net.echo', $run, idempotent: true)
    ->onCall('net.once', $run)
    ->run();
