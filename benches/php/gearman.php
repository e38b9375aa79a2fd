<?php
// The same calls over Gearman: php gearman.php PORT worker | php gearman.php PORT SECONDS

[, $port, $mode] = $argv;
if ($mode === 'worker') {
    $worker = new GearmanWorker();
    $worker->addServer('127.0.0.1', (int) $port);
    $worker->addFunction('bench.echo', static fn (GearmanJob $job) => $job->workload());
    echo "ready\n"; // Calls wait for a worker.
    while ($worker->work());
    exit;
}
$client = new GearmanClient();
$client->addServer('127.0.0.1', (int) $port);
$end = hrtime(true) + (int) ((float) $mode * 1e9);
for ($calls = 0; hrtime(true) < $end; $calls += 16) {
    for ($i = 0; $i < 16; $i++) {
        $client->addTask('bench.echo', '{"hello":"world"}', null, "$calls-$i");
    }
    $client->runTasks() || exit($client->error() . "\n");
}
echo $calls, "\n";
