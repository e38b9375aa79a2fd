<?php

// Not a worker: a client that uses everything it can of a running Stoker, and prints the results.

declare(strict_types=1);

use Stoker\Client;

require __DIR__ . '/../../sdk/php/src/autoload.php';

$stoker = Client::connect();
$told = ['call' => $stoker->call('t.run', ['a' => 1])];
[$told['first'], $told['second']] = $stoker->callAll([['t.run', 1], ['t.run', 'ok two']]);
try {
    $stoker->call('tt.run');
} catch (Stoker\NoWorker $error) {
    $told['no worker'] = $error->getMessage();
}
$told['ids'] = count(array_unique($stoker->pushMany('mails', [[], [], []])));
$told['state'] = $stoker->job($stoker->push('mails', [], delay: 3600))['state'];
$told['queues'] = array_column($stoker->queues(), 'name');
echo json_encode($told), "\n";
