<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use BackedEnum;
use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Attributes\Delay;
use Illuminate\Queue\Jobs\InspectedJob;
use Illuminate\Queue\Queue;
use Illuminate\Support\Collection;
use Stoker\Client;
use Stoker\Pending;
use Stoker\StokerException;
use UnitEnum;
use WeakReference;

/**
 * The queue of a connection with the driver `stoker`: `dispatch()` and similar functions push to it, and queue:work
 * pops from it.
 *
 * A job class may have a method `stoker(): array` that returns further options: key (fairness key, that is, the
 * tenant; UTF-8), priority (0 first to 7 last), keepResult (seconds).
 */
final class StokerQueue extends Queue implements QueueContract, ClearableQueue
{
    /** Options of stoker() that are sent to the server. Options such as tries are not, because Laravel applies them. */
    private const OPTIONS = ['key', 'priority', 'keepResult'];

    private ?Client $client = null;
    private ?Consumer $consumer = null;

    /** @var list<Pending>|null pushes that bulk() has started; null outside of bulk() */
    private ?array $bulkPushes = null;

    /**
     * @param string      $default      name of the default queue
     * @param string|null $socket       address of the server, or several; null as for Client::connect()
     * @param float       $timeout      timeout of requests in seconds, so that a web request does not hang with the
     *                                  server
     * @param bool        $afterCommit  push jobs only after the open database transaction has been committed
     * @param float       $reconnectFor seconds for which to keep trying to connect
     * @param float       $blockFor     seconds for which pop() waits for a job
     * @param int|null    $crashes      number of workers that may die on a job before it fails; null = the server's
     *                                  limit
     * @param string|null $token        token for a server on another machine; null as for Client::connect()
     */
    public function __construct(
        private string $default = 'default',
        public readonly ?string $socket = null,
        private float $timeout = 10,
        bool $afterCommit = false,
        private float $reconnectFor = 0,
        private float $blockFor = 5,
        private ?int $crashes = 2,
        private ?string $token = null,
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
            $this->createPayload($job, $this->getQueue($queue), $data, $delay ?: null), // Laravel 8 ignores $delay.
            $queue,
            $delay ?: null,
            fn ($payload, $queue, $delay = null) => $this->send($payload, $queue, $this->due($delay ?? 0)),
        );
    }

    /** Pushes a payload unchanged. queue:retry uses it. */
    public function pushRaw($payload, $queue = null, array $options = [])
    {
        return $this->send($payload, $queue, [], $options);
    }

    /** Pushes jobs in one round trip. Jobs with afterCommit are pushed when the open transaction has been committed. */
    public function bulk($jobs, $data = '', $queue = null)
    {
        $this->bulkPushes = [];
        $failure = null;
        try {
            foreach ((array) $jobs as $job) {
                $this->later(is_object($job) ? $this->delayOf($job) : 0, $job, $data, $queue);
            }
        } finally {
            [$bulkPushes, $this->bulkPushes] = [$this->bulkPushes, null];
            foreach ($bulkPushes as $push) {
                try {
                    $push->await();
                } catch (StokerException $e) {
                    $failure ??= $e;
                }
            }
        }
        if ($failure !== null) {
            throw $failure;
        }
    }

    /**
     * Waits for the next job; null if none arrived within $blockFor seconds, at a signal, and if Stoker asked this
     * worker to exit.
     *
     * @param string|null $queue name of a queue, or "@" and the name of a pool for all queues of the pool
     */
    public function pop($queue = null, $index = 0)
    {
        return $this->consumer()->pop($this->getQueue($queue), $this->blockFor);
    }

    /** The worker connections of this process. */
    public function consumer(): Consumer
    {
        $self = WeakReference::create($this); // So that the connections close with the application.

        return $this->consumer ??= new Consumer(
            $this->container,
            $this->connectionName,
            $this->socket,
            $this->token,
            $this->crashes,
            static fn (string $id): ?array => $self->get()?->client()->job($id),
            static fn (string $queue): ?string => array_values($self->get()?->queueField($queue, 'pool') ?? [])[0] ?? null,
        );
    }

    /** Cancels all waiting jobs of a queue, but not the running ones, and returns how many were cancelled. */
    public function clear($queue)
    {
        $client = $this->client();
        $queue = $this->getQueue($queue);
        $count = 0;
        foreach (['delayed', 'retrying', 'suspended'] as $state) {
            $count += $client->cancel(['queue' => $queue, 'state' => $state]);
        }
        // Cancel ready jobs by their ids. One that has started in the meantime is stopped, possibly with its worker,
        // but other running jobs are not affected.
        foreach (array_chunk(iterator_to_array($client->jobs(['queue' => $queue, 'state' => 'ready'], 1000), false), 1000) as $jobs) {
            $answers = $client->callAll(array_map(
                static fn (array $job) => ['stoker.job', ['op' => 'cancel', 'id' => $job['id']]],
                $jobs,
            ), throw: false);
            $count += array_sum(array_map(static fn ($answer) => is_array($answer) ? $answer['count'] : 0, $answers));
        }

        return $count;
    }

    /**
     * The number of jobs in a queue. For this and the other size methods, "@" and the name of a pool means all its
     * queues, and "@" alone means all queues.
     */
    public function size($queue = null)
    {
        return $this->pendingSize($queue) + $this->delayedSize($queue) + $this->reservedSize($queue);
    }

    public function pendingSize($queue = null)
    {
        return (int) array_sum($this->queueField($queue, 'ready'));
    }

    public function delayedSize($queue = null)
    {
        return (int) array_sum($this->queueField($queue, 'delayed'));
    }

    public function reservedSize($queue = null)
    {
        return (int) array_sum($this->queueField($queue, 'running'));
    }

    public function creationTimeOfOldestPendingJob($queue = null)
    {
        $ages = array_filter($this->queueField($queue, 'oldest_ms'), 'is_int');

        return $ages === [] ? null : time() - intdiv(max($ages), 1000);
    }

    public function totalPendingSize(): int
    {
        return $this->pendingSize('@');
    }

    public function totalDelayedSize(): int
    {
        return $this->delayedSize('@');
    }

    public function totalReservedSize(): int
    {
        return $this->reservedSize('@');
    }

    /** @return Collection<int, InspectedJob> InspectedJob, and so this method and the next ones, needs Laravel 13 */
    public function pendingJobs($queue = null): Collection
    {
        return $this->inspect(['queue' => $this->getQueue($queue), 'state' => 'ready']);
    }

    public function delayedJobs($queue = null): Collection
    {
        $queue = $this->getQueue($queue);

        return $this->inspect(['queue' => $queue, 'state' => 'delayed'])
            ->concat($this->inspect(['queue' => $queue, 'state' => 'retrying']));
    }

    public function reservedJobs($queue = null): Collection
    {
        return $this->inspect(['queue' => $this->getQueue($queue), 'state' => 'running']);
    }

    public function allPendingJobs(): Collection
    {
        return $this->inspect(['state' => 'ready']);
    }

    public function allDelayedJobs(): Collection
    {
        return $this->inspect(['state' => 'delayed'])->concat($this->inspect(['state' => 'retrying']));
    }

    public function allReservedJobs(): Collection
    {
        return $this->inspect(['state' => 'running']);
    }

    /** Pauses a queue on all workers; queue:pause of Laravel 12 and later uses it. "@" and a pool as for size(). */
    public function pause(string $queue): void
    {
        foreach ($this->queueNames($queue) as $name) {
            $this->client()->pause($name, create: true);
        }
    }

    /** Resumes a queue that was paused with pause(). */
    public function resume(string $queue): void
    {
        foreach ($this->queueNames($queue) as $name) {
            $this->client()->resume($name);
        }
    }

    /** The name of a queue in Stoker. Laravel 13 allows enums as queues, and can forward a queue to another. */
    public function getQueue($queue): string
    {
        $queue = match (true) {
            $queue instanceof BackedEnum => (string) $queue->value,
            $queue instanceof UnitEnum => $queue->name,
            default => $queue,
        } ?: $this->default;

        return method_exists($this, 'resolveQueue') ? $this->resolveQueue($queue) : $queue;
    }

    /** The SDK's client of this connection, for features that Laravel does not have. */
    public function client(): Client
    {
        return $this->client ??= Client::connect(
            $this->socket,
            timeout: $this->timeout,
            reconnectFor: $this->reconnectFor,
            token: $this->token,
        );
    }

    /** Adds the options of stoker() to the payload, because queue:retry has only the payload to push the job again. */
    protected function createPayloadArray($job, $queue, $data = '')
    {
        $payload = parent::createPayloadArray($job, $queue, $data);
        $options = is_object($job) && method_exists($job, 'stoker') ? $job->stoker() : [];
        $options = array_intersect_key($options, array_flip(self::OPTIONS));

        return $options === [] ? $payload : $payload + ['stoker' => $options];
    }

    /**
     * Pushes a job and returns its id; null inside of bulk().
     *
     * @param array{delay?: int, dueAt?: int} $due     when the job is due; empty = now
     * @param array<string, mixed>            $options options that override those of the payload
     */
    private function send(string $payload, string|UnitEnum|null $queue, array $due, array $options = []): ?string
    {
        $envelope = (array) json_decode($payload, true);
        $backoff = (string) ($envelope['backoff'] ?? '');
        $push = $this->client()->pushAsync(
            ...array_intersect_key($options + (array) ($envelope['stoker'] ?? []), array_flip(self::OPTIONS)),
            queue: $this->getQueue($queue),
            body: $payload,
            delay: $due['delay'] ?? null,
            dueAt: $due['dueAt'] ?? null,
            // The server has no limit, because Laravel counts the attempts: see ResidentWorker.
            tries: 0,
            // The server uses this after a timeout that ended the worker, when no PHP code could choose the delay.
            backoff: $backoff === '' ? [] : array_map('floatval', explode(',', $backoff)),
            timeout: ($envelope['timeout'] ?? 0) ?: null,
            type: substr((string) ($envelope['displayName'] ?? ''), 0, 255) ?: null,
            // Lets the server recognize a push that the client repeats after a lost connection. The payload's uuid is
            // not suitable: applications may set it, and then a different job with the same uuid would be taken for
            // a repeat.
            idempotencyKey: bin2hex(random_bytes(16)),
        );
        if ($this->bulkPushes !== null) {
            $this->bulkPushes[] = $push;

            return null;
        }

        return $push->await();
    }

    /**
     * When a job is due. A time in the past is kept, because the job that was due first runs first.
     *
     * @param \DateTimeInterface|\DateInterval|int $delay
     * @return array{delay?: int, dueAt?: int}
     */
    private function due(mixed $delay): array
    {
        $seconds = $this->secondsUntil($delay);
        if ($seconds > 0) {
            return ['delay' => $seconds];
        }
        $at = $this->availableAt($delay);

        return $at < $this->currentTime() ? ['dueAt' => $at] : [];
    }

    /** @return \DateTimeInterface|\DateInterval|int|null the job's own delay: a property or, in Laravel 13, an attribute */
    private function delayOf(object $job): mixed
    {
        return method_exists($this, 'getAttributeValue')
            ? $this->getAttributeValue($job, Delay::class, 'delay')
            : $job->delay ?? null;
    }

    /** @return list<string> names of the queues that $queue selects */
    private function queueNames(string $queue): array
    {
        return str_starts_with($queue, '@') ? array_values($this->queueField($queue, 'name')) : [$this->getQueue($queue)];
    }

    /** @return array<string, mixed> one field of Client::queues(), by the name of the queue */
    private function queueField(string|UnitEnum|null $queue, string $what): array
    {
        $queue = $this->getQueue($queue);
        $pool = str_starts_with($queue, '@') ? substr($queue, 1) : null;
        $queues = array_filter($this->client()->queues(), static fn (array $one) => ($one['kind'] ?? 'jobs') === 'jobs' && match ($pool) {
            null => $one['name'] === $queue,
            '' => true,
            default => $one['pool'] === $pool,
        });

        return array_column($queues, $what, 'name');
    }

    /**
     * Reads jobs with their payloads.
     *
     * @param array<string, string> $filter see Client::jobs()
     */
    private function inspect(array $filter): Collection
    {
        $jobs = new Collection();
        foreach ($this->client()->jobs($filter, 1000) as $job) {
            $body = $this->client()->job($job['id'])['body'] ?? null;
            if ($body !== null) {
                $jobs->push(InspectedJob::fromPayload($body, $job['attempt'], $job['queue']));
            }
        }

        return $jobs;
    }
}
