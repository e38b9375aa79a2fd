<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use BadMethodCallException;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Queue;
use Stoker\Client;

/** The producing side: `dispatch()` and its kin end here. */
final class StokerQueue extends Queue implements QueueContract
{
    private ?Client $client = null;

    /** @var array<string, list<string>>|null payloads that bulk() gathers, by what is to be pushed with them */
    private ?array $gathered = null;

    /** @param float $timeout seconds after which a push gives up: no request may hang because the broker does */
    public function __construct(
        private string $default,
        private ?string $socket,
        private float $timeout,
        bool $afterCommit,
    ) {
        $this->dispatchAfterCommit = $afterCommit;
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->later(0, $job, $data, $queue);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        return $this->enqueueUsing(
            $job,
            $this->createPayload($job, $queue ?? $this->default, $data, $delay ?: null), // 8 knows no fourth parameter
            $queue,
            $delay ?: null,
            fn ($payload, $queue, $delay = null) => $this->send($payload, $queue, $this->secondsUntil($delay ?? 0)),
        );
    }

    public function pushRaw($payload, $queue = null, array $options = [])
    {
        return $this->send($payload, $queue, 0);
    }

    /** All jobs in one round trip; those that wait for a transaction go when it is committed. */
    public function bulk($jobs, $data = '', $queue = null)
    {
        $this->gathered = [];
        try {
            foreach ((array) $jobs as $job) {
                $this->later(is_object($job) ? $job->delay ?? 0 : 0, $job, $data, $queue);
            }
            $gathered = $this->gathered;
        } finally {
            $this->gathered = null;
        }
        foreach ($gathered as $common => $payloads) {
            $this->client()->pushMany(...json_decode($common, true), bodies: $payloads);
        }
    }

    public function pop($queue = null)
    {
        throw new BadMethodCallException(
            'Stoker hands out jobs by itself: run Stoker\Laravel\ResidentWorker under `stoker serve`, not queue:work',
        );
    }

    public function size($queue = null)
    {
        return $this->pendingSize($queue) + $this->delayedSize($queue) + $this->reservedSize($queue);
    }

    public function pendingSize($queue = null)
    {
        return $this->figure($queue, 'ready') ?? 0;
    }

    public function delayedSize($queue = null)
    {
        return $this->figure($queue, 'delayed') ?? 0;
    }

    public function reservedSize($queue = null)
    {
        return $this->figure($queue, 'running') ?? 0;
    }

    public function creationTimeOfOldestPendingJob($queue = null)
    {
        $age = $this->figure($queue, 'oldest_ms');

        return $age === null ? null : time() - intdiv($age, 1000);
    }

    /** The job's id; null when bulk() is at work. */
    private function send(string $payload, ?string $queue, int $delay): ?string
    {
        $envelope = json_decode($payload, true);
        $backoff = (string) ($envelope['backoff'] ?? '');
        $common = [
            'queue' => $queue ?? $this->default,
            'delay' => $delay > 0 ? $delay : null,
            // Laravel counts attempts, in the worker: see ResidentWorker.
            'tries' => 0,
            // For people who look, and for the broker where no PHP could say: after the death of a worker.
            'backoff' => $backoff === '' ? [] : array_map('floatval', explode(',', $backoff)),
            'timeout' => ($envelope['timeout'] ?? 0) ?: null,
        ];
        if ($this->gathered !== null) {
            $this->gathered[json_encode($common)][] = $payload;

            return null;
        }

        return $this->client()->push(...$common, body: $payload);
    }

    private function figure(?string $queue, string $what): ?int
    {
        $found = array_column($this->client()->queues(), $what, 'name');

        return $found[$queue ?? $this->default] ?? null;
    }

    private function client(): Client
    {
        return $this->client ??= Client::connect($this->socket, timeout: $this->timeout);
    }
}
