<?php
// Calls at a given rate, whatever the answers take, for benches/hour.py: php paced_client.php CALLS_PER_SECOND SECONDS REPORT_SECONDS
//
// Prints a line of JSON for each interval: the calls that were answered, the failed ones by their exception, and how many
// answers took how long, by bucket. A call's time counts from the moment at which it was due, not from when it was sent: if
// the server falls behind, that shows.

require __DIR__ . '/../../sdk/php/src/autoload.php';

const MAX_OPEN = 512; // calls in flight; at 5,000 calls a second, 100 ms of them
const BATCH_NS = 500_000; // calls that are due within this time are sent together
const BUCKETS_PER_DOUBLING = 16;

[, $rate, $seconds, $every] = array_map('floatval', $argv);
$gap = 1e9 / $rate;
$stoker = Stoker\Client::connect(timeout: 20.0, reconnectFor: 20.0);
$stoker->call('bench.echo', '{}', idempotent: true);
$answered = 0;
$failed = $taken = [];
$report = static function () use (&$answered, &$failed, &$taken): void {
    echo json_encode(['answered' => $answered, 'failed' => (object) $failed, 'taken' => (object) $taken]), "\n";
    [$answered, $failed, $taken] = [0, [], []];
};

$began = hrtime(true);
$end = $began + (int) ($seconds * 1e9);
$reported = $began;
$sent = 0;
$open = new SplQueue();
while (true) {
    $now = hrtime(true);
    $wanted = (int) ((min($now + BATCH_NS, $end) - $began) / $gap);
    for ($limit = $sent + MAX_OPEN - count($open); $sent < min($wanted, $limit); $sent++) {
        $open->enqueue([$stoker->callAsync('bench.echo', '{"hello":"world"}', idempotent: true), $began + $sent * $gap]);
    }
    if (!$open->isEmpty()) {
        [$call, $due] = $open->dequeue();
        try {
            $call->await();
            $answered++;
            $bucket = (int) (log(max((hrtime(true) - $due) / 1e3, 1.0), 2) * BUCKETS_PER_DOUBLING);
            $taken[$bucket] = ($taken[$bucket] ?? 0) + 1;
        } catch (Stoker\StokerException $e) {
            $failed[$e::class] = ($failed[$e::class] ?? 0) + 1;
        }
    } elseif ($now >= $end) {
        break;
    } else {
        usleep((int) (max($began + $sent * $gap - $now, 0) / 1e3) + 1);
    }
    if ($now - $reported >= $every * 1e9) {
        $reported = $now;
        $report();
    }
}
$report();
