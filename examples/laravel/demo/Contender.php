<?php

namespace Demo;

use RuntimeException;
use Stoker\Client;

/** Measures Stoker in the same way as Baseline measures queue:work. */
final class Contender
{
    public function __construct(private Broker $broker, private Workspace $workspace)
    {
    }

    public function measure(int $jobs): Figures
    {
        $figures = new Figures('Stoker', '2 workers', 'SQLite, each push synced', $jobs);
        $queue = $this->workspace->app['queue']->connection('stoker');
        $ledger = $this->workspace->ledger();

        $client = Client::connect($this->broker->socket, timeout: 15);

        // Fill the queue first, as for queue:work, whose workers start when the queue is full.
        $client->pause('default');
        $figures->pushed = Load::backlog($queue, $jobs);
        $client->resume('default');
        if (! $ledger->await($jobs, 30)) {
            throw new RuntimeException("Stoker ended {$ledger->ended()} of $jobs jobs in 30 s");
        }
        $figures->throughput = $ledger->throughput();
        $figures->waits = Load::trickle($queue, $ledger, 100, 0.01, 0.03);

        return $figures;
    }
}
