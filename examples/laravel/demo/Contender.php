<?php

namespace Demo;

/** Stoker, measured in the same way as what it is compared to. */
final class Contender
{
    public function __construct(private Broker $broker, private Workspace $workspace)
    {
    }

    public function measure(int $jobs): Figures
    {
        $figures = new Figures('Stoker', '2 workers', $jobs);
        $queue = $this->workspace->app['queue']->connection('stoker');
        $ledger = $this->workspace->ledger();

        // Fill it first, as for queue:work, whose workers start when the queue is full.
        $this->broker->run('pause', 'default');
        $figures->pushed = Load::backlog($queue, $jobs);
        $this->broker->run('resume', 'default');
        $ledger->await($jobs, 30);
        $figures->throughput = $ledger->throughput();
        $figures->waits = Load::trickle($queue, $ledger, 100, 0.01, 0.03);

        return $figures;
    }
}
