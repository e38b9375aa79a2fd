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
 * The connection "stoker": `dispatch()` and its kin end here, and queue:work takes its jobs from here.
 *
 * A job may say more with a method `stoker(): array`: key (the tenant, for fairness; UTF-8), priority (0 first to 7
 * last), keepResult (seconds).
 */
final class StokerQueue extends Queue implements QueueContract, ClearableQueue
{
    /** What of a job's own options the broker takes. Those that Laravel counts itself are not among them. */
    private const OPTIONS = ['key', 'priority', 'keepResult'];

    private ?Client $client = null;
    private ?Consumer $consumer = null;

    /** @var list<Pending>|null pushes that bulk() gathers */
    private ?array $gathered = null;

    /**
     * @param float $timeout      seconds after which a push gives up: no request may hang because the broker does
     * @param float $reconnectFor seconds for which a lost connection is tried to be opened again
     * @param float $blockFor     seconds that pop() waits for a job
     * @param int|null $crashes   so many workers may die on a job before it fails; null leaves that to the broker
     */
    public function __construct(
        private string $default = 'default',
        public readonly ?string $socket = null,
        private float $timeout = 10,
        bool $afterCommit = false,
        private float $reconnectFor = 0,
        private float $blockFor = 5,
        private ?int $crashes = 2,
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
            $this->createPayload($job, $this->getQueue($queue), $data, $delay ?: null), // 8 knows no fourth parameter
            $queue,
            $delay ?: null,
            fn ($payload, $queue, $delay = null) => $this->send($payload, $queue, $this->due($delay ?? 0)),
        );
    }

    /** Puts a payload into a queue as it is: so does queue:retry. */
    public function pushRaw($payload, $queue = null, array $options = [])
    {
        return $this->send($payload, $queue, [], $options);
    }

    /** All jobs in one round trip; those that wait for a transaction go when it is committed. */
    public function bulk($jobs, $data = '', $queue = null)
    {
        $this->gathered = [];
        $failure = null;
        try {
            foreach ((array) $jobs as $job) {
                $this->later(is_object($job) ? $this->delayOf($job) : 0, $job, $data, $queue);
            }
        } finally {
            [$gathered, $this->gathered] = [$this->gathered, null];
            foreach ($gathered as $push) {
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
     * The next job for queue:work; null after a few seconds without one, at a signal, and when Stoker says to go.
     *
     * @param string|null $queue one queue, or "@" and the name of the pool for all of the pool's
     */
    public function pop($queue = null, $index = 0)
    {
        return $this->consumer()->pop($this->getQueue($queue), $this->blockFor);
    }

    /** This process as a worker. */
    public function consumer(): Consumer
    {
        $self = WeakReference::create($this); // Who drops the application drops its connections.

        return $this->consumer ??= new Consumer(
            $this->container,
            $this->connectionName,
            $this->socket,
            $this->crashes,
            static fn (string $id): ?array => $self->get()?->client()->job($id),
            static fn (string $queue): ?string => array_values($self->get()?->figures($queue, 'pool') ?? [])[0] ?? null,
        );
    }

    /** Ends all that waits in a queue; what runs is left alone. */
    public function clear($queue)
    {
        $client = $this->client();
        $queue = $this->getQueue($queue);
        $count = 0;
        foreach (['delayed', 'retrying', 'suspended'] as $state) {
            $count += $client->cancel(['queue' => $queue, 'state' => $state]);
        }
        // By their ids: one that begins meanwhile is lost with its worker, but no other that runs.
        foreach (array_chunk(iterator_to_array($client->jobs(['queue' => $queue, 'state' => 'ready'], 1000), false), 1000) as $jobs) {
            $answers = $client->callAll(array_map(
                static fn (array $job) => ['stoker.job', ['op' => 'cancel', 'id' => $job['id']]],
                $jobs,
            ), throw: false);
            $count += array_sum(array_map(static fn ($answer) => is_array($answer) ? $answer['count'] : 0, $answers));
        }

        return $count;
    }

    /** For these and all that follow: "@" and the name of a pool means all its queues. */
    public function size($queue = null)
    {
        return $this->pendingSize($queue) + $this->delayedSize($queue) + $this->reservedSize($queue);
    }

    public function pendingSize($queue = null)
    {
        return (int) array_sum($this->figures($queue, 'ready'));
    }

    public function delayedSize($queue = null)
    {
        return (int) array_sum($this->figures($queue, 'delayed'));
    }

    public function reservedSize($queue = null)
    {
        return (int) array_sum($this->figures($queue, 'running'));
    }

    public function creationTimeOfOldestPendingJob($queue = null)
    {
        $ages = array_filter($this->figures($queue, 'oldest_ms'), 'is_int');

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

    /** @return Collection<int, InspectedJob> so for those that follow; needs the class of Laravel 13 */
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

    /** Lets no job of a queue begin, on any worker: what queue:pause of Laravel 12 comes to. */
    public function pause(string $queue): void
    {
        foreach ($this->names($queue) as $name) {
            $this->client()->pause($name, create: true);
        }
    }

    /** Undoes pause(). */
    public function resume(string $queue): void
    {
        foreach ($this->names($queue) as $name) {
            $this->client()->resume($name);
        }
    }

    /** The name that Stoker knows a queue by. Laravel 13 lets an enum name it, and forwards queues to others. */
    public function getQueue($queue): string
    {
        $queue = match (true) {
            $queue instanceof BackedEnum => (string) $queue->value,
            $queue instanceof UnitEnum => $queue->name,
            default => $queue,
        } ?: $this->default;

        return method_exists($this, 'resolveQueue') ? $this->resolveQueue($queue) : $queue;
    }

    /** The broker itself, for all that Laravel has no word for. */
    public function client(): Client
    {
        return $this->client ??= Client::connect($this->socket, timeout: $this->timeout, reconnectFor: $this->reconnectFor);
    }

    /** What a job says with stoker() goes along: queue:retry has no more than the payload to push it anew. */
    protected function createPayloadArray($job, $queue, $data = '')
    {
        $payload = parent::createPayloadArray($job, $queue, $data);
        $options = is_object($job) && method_exists($job, 'stoker') ? $job->stoker() : [];
        $options = array_intersect_key($options, array_flip(self::OPTIONS));

        return $options === [] ? $payload : $payload + ['stoker' => $options];
    }

    /**
     * The job's id; null when bulk() is at work.
     *
     * @param array{delay?: int, dueAt?: int} $due     none for now
     * @param array<string, mixed>            $options go before those of the payload
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
            // Laravel counts attempts, in the worker: see ResidentWorker.
            tries: 0,
            // For the broker where no PHP could say: after a timeout that ended the worker.
            backoff: $backoff === '' ? [] : array_map('floatval', explode(',', $backoff)),
            timeout: ($envelope['timeout'] ?? 0) ?: null,
            type: substr((string) ($envelope['displayName'] ?? ''), 0, 255) ?: null,
            // If a lost connection makes the client repeat the push, the broker knows it again. The payload's uuid would
            // not do: applications may fix it, and then another job would be taken for a repetition.
            idempotencyKey: bin2hex(random_bytes(16)),
        );
        if ($this->gathered !== null) {
            $this->gathered[] = $push;

            return null;
        }

        return $push->await();
    }

    /**
     * When a job is due. A time that has passed counts as well: the one that was due first runs first.
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

    /** @return \DateTimeInterface|\DateInterval|int|null what a job says itself, in a property or an attribute of Laravel 13 */
    private function delayOf(object $job): mixed
    {
        return method_exists($this, 'getAttributeValue')
            ? $this->getAttributeValue($job, Delay::class, 'delay')
            : $job->delay ?? null;
    }

    /** @return list<string> the queues that are meant */
    private function names(string $queue): array
    {
        return str_starts_with($queue, '@') ? array_values($this->figures($queue, 'name')) : [$this->getQueue($queue)];
    }

    /** @return array<string, mixed> one of the broker's figures, by queue */
    private function figures(string|UnitEnum|null $queue, string $what): array
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

    /** @param array<string, string> $filter */
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
