<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use DateTimeInterface;
use Illuminate\Queue\Failed\FailedJobProviderInterface;
use Illuminate\Queue\Failed\NullFailedJobProvider;
use Illuminate\Queue\Failed\PrunableFailedJobProvider;
use Stoker\Client;
use Stoker\InvalidRequest;
use Stoker\NotFound;

/**
 * Laravel's failed job provider for applications that use Stoker. Failed jobs of Stoker connections are read from
 * Stoker; those of other connections from the application's own provider.
 *
 * log() does nothing for a Stoker connection, because Stoker keeps a failed job with its error and history. Jobs have
 * Stoker's id; find() and forget() also accept the uuid of the payload, which batches use.
 */
class FailedJobs implements FailedJobProviderInterface, PrunableFailedJobProvider
{
    /** @var array<string, string>|null Stoker's ids by the payload's uuid, as of the last search */
    private ?array $byUuid = null;

    /**
     * @param FailedJobProviderInterface        $others      provider for the jobs of other connections
     * @param array<string, \Closure(): Client> $clients     returns a client of each server, by the name of a
     *                                                       connection to it
     * @param list<string>                      $connections names of all connections to Stoker
     */
    public function __construct(private FailedJobProviderInterface $others, private array $clients, private array $connections)
    {
    }

    public function log($connection, $queue, $payload, $exception)
    {
        return in_array($connection, $this->connections, true) ? null : $this->others->log($connection, $queue, $payload, $exception);
    }

    public function all()
    {
        $jobs = iterator_to_array($this->jobs(), false);
        usort($jobs, static fn (object $a, object $b) => $b->failed_at <=> $a->failed_at);

        return [...$jobs, ...$this->others->all()];
    }

    /** Laravel 13 calls this, and reads only the ids. */
    public function ids($queue = null)
    {
        $ids = [];
        foreach ($this->jobs() as $job) {
            if ($queue === null || $job->queue === $queue) {
                $ids[] = $job->id;
            }
        }
        $others = array_filter($this->others->all(), static fn (object $job) => $queue === null || $job->queue === $queue);

        return [...$ids, ...array_map(static fn (object $job) => $job->id, $others)];
    }

    public function find($id)
    {
        foreach ($this->clients as $connection => $client) {
            if (($job = $this->show($client(), (string) $id)) !== null) {
                return $this->row($connection, $job, $job['ended_at']);
            }
        }

        return $this->others->find($id);
    }

    public function forget($id)
    {
        foreach ($this->clients as $client) {
            if (($job = $this->show($client(), (string) $id)) !== null) {
                return $client()->discard($job['id']) > 0;
            }
        }

        // NullFailedJobProvider returns true although it has no jobs.
        return ! $this->others instanceof NullFailedJobProvider && $this->others->forget($id);
    }

    public function flush($hours = null)
    {
        $this->discard($hours === null ? INF : time() - $hours * 3600);
        $hours === null ? $this->others->flush() : $this->others->flush($hours);
    }

    public function prune(DateTimeInterface $before)
    {
        $count = $this->discard($before->getTimestamp());

        return $count + ($this->others instanceof PrunableFailedJobProvider ? $this->others->prune($before) : 0);
    }

    /** Laravel 10 and later call this. */
    public function count($connection = null, $queue = null): int
    {
        $count = 0;
        foreach ($this->jobs() as $job) {
            $count += (int) (($connection === null || $job->connection === $connection) && ($queue === null || $job->queue === $queue));
        }
        $others = array_filter($this->others->all(), static fn (object $job) => ($connection === null || $job->connection === $connection)
            && ($queue === null || $job->queue === $queue));

        return $count + count($others);
    }

    /** @return \Generator<int, object> all failed jobs of Laravel in Stoker, as row() returns them */
    private function jobs(): \Generator
    {
        foreach ($this->clients as $connection => $client) {
            foreach ($client()->export(['state' => 'failed']) as $job) {
                $row = $this->row($connection, $job, null);
                if ($row !== null) {
                    yield $row;
                }
            }
        }
    }

    /**
     * Deletes the jobs that failed before a time.
     *
     * @param float $before Unix time in seconds
     */
    private function discard(float $before): int
    {
        $count = 0;
        foreach (iterator_to_array($this->jobs(), false) as $job) {
            if ($job->failed_at !== null && strtotime($job->failed_at . ' UTC') < $before) {
                $count += (int) $this->forget($job->id);
            }
        }

        return $count;
    }

    /** @return array<string, mixed>|null a failed job, found by Stoker's id or by the uuid of its payload */
    private function show(Client $client, string $id): ?array
    {
        foreach ([$id, null] as $try) {
            $try ??= $this->idOf($id);
            try {
                $job = $try === null ? null : $client->job($try);
            } catch (InvalidRequest) {
                $job = null; // The id is not a UUID; other providers use numbers.
            }
            if ($job !== null && $job['state'] === 'failed') {
                return $job;
            }
        }

        return null;
    }

    /** Stoker's id of the failed job whose payload has this uuid; null if there is none. */
    private function idOf(string $uuid): ?string
    {
        if (preg_match('/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/Di', $uuid) !== 1) {
            return null;
        }
        if (! isset($this->byUuid[$uuid])) {
            $this->byUuid = [];
            foreach ($this->jobs() as $job) {
                $this->byUuid[json_decode($job->payload, true)['uuid'] ?? ''] = $job->id;
            }
        }

        return $this->byUuid[$uuid] ?? null;
    }

    /**
     * Converts a job to the object that Laravel's failed job commands expect; null if it was not pushed by Laravel.
     *
     * @param array<string, mixed> $job as Client::job() or Client::export() returns it
     */
    private function row(string $connection, array $job, ?string $endedAt): ?object
    {
        if (! isset(json_decode($job['body'] ?? '', true)['job'])) {
            return null; // The job was not pushed by Laravel.
        }
        $error = $job['error'] ?? [];
        $at = isset($error['at_ms']) ? intdiv($error['at_ms'], 1000) : strtotime((string) ($error['at'] ?? $endedAt ?? 'now'));
        [$message, $trace] = explode("\n", (string) ($error['message'] ?? ''), 2) + ['', ''];

        return (object) [
            'id' => $job['id'],
            'connection' => $connection,
            'queue' => $job['queue'],
            'payload' => $job['body'],
            'exception' => ($error['class'] ?? '') . ": $message" . (isset($error['place']) ? " in {$error['place']}" : '')
                . ($trace !== '' ? "\nStack trace:\n$trace" : ''),
            'failed_at' => gmdate('Y-m-d H:i:s', $at),
        ];
    }
}
