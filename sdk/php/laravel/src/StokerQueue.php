<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use BadMethodCallException;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Queue;
use Stoker\Client;
use Stoker\ConnectionLost;

/** The producing side: `dispatch()` and its kin end here. */
final class StokerQueue extends Queue implements QueueContract
{
    private ?Client $client = null;
    /** @var list<array{string, string, float}>|null jobs that bulk() gathers */
    private ?array $gathered = null;

    public function __construct(private string $default, private ?string $socket, ?bool $afterCommit)
    {
        $this->dispatchAfterCommit = $afterCommit;
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->later(0, $job, $data, $queue);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        $queue = $this->name($queue);

        return $this->enqueueUsing(
            $job,
            $this->createPayload($job, $queue, $data, $delay), // 8 has no fourth parameter, and does not mind.
            $queue,
            $delay ?: null,
            fn (string $payload, string $queue, $delay = null) => $this->send($queue, $payload, $this->secondsUntil($delay ?? 0)),
        );
    }

    public function pushRaw($payload, $queue = null, array $options = [])
    {
        return $this->send($this->name($queue), $payload, 0);
    }

    private function name($queue): string
    {
        return $queue ?? $this->default;
    }
public function pendingSize($queue=null){} public function delayedSize($queue=null){} public function reservedSize($queue=null){} public function creationTimeOfOldestPendingJob($queue=null){}
    public function size($queue = null) {}
    public function pop($queue = null) {}
}
