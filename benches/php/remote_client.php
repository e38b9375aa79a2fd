<?php
// Keeps 16 calls in flight for some seconds, over the address in STOKER_URL or STOKER_SOCKET, and prints how many were
// answered: php remote_client.php SECONDS

require __DIR__ . '/../../sdk/php/src/autoload.php';

$stoker = Stoker\Client::connect(timeout: 20.0, reconnectFor: 20.0);
$start = static function (int $count) use ($stoker): array {
    return array_map(static fn () => $stoker->callAsync('bench.echo', '{"hello":"world"}', idempotent: true), range(1, $count));
};
$open = [...$start(8), ...$start(8)];
$end = hrtime(true) + (int) ((float) $argv[1] * 1e9);
for ($calls = 0; hrtime(true) < $end; $calls += 8) {
    // The older half is awaited while the younger one is on its way.
    foreach (array_splice($open, 0, 8) as $call) {
        $call->await();
    }
    array_push($open, ...$start(8));
}
foreach ($open as $call) {
    $call->await();
}
echo $calls, "\n";
