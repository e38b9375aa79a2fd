<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Link;
use Stoker\Internal\Requests;
use Stoker\Wire\Flag;

/**
 * Calls methods and pushes jobs.
 *
 *     $stoker = Client::connect();
 *     $user = $stoker->call('users.get', ['id' => 1], timeout: 0.2);
 *     $id = $stoker->push('emails', ['to' => 'ada@example.org'], delay: 30);
 *
 * Bodies: null is an empty body, a string goes as it is, anything else as JSON. All times are in seconds.
 *
 * Inside a handler of Worker, calls inherit what is left of the task's time, its priority and its trace, and the
 * broker learns which task waits for them.
 */
final class Client
{
    private Requests $requests;

    private function __construct(private Link $link, ?float $timeout)
    {
        $this->requests = new Requests($link, $timeout);
    }

    /**
     * Connects to a broker.
     *
     * A connection that is lost is opened anew by itself: at the next request, or at once for requests under way.
     * Those are sent again if they can't have reached the broker, are calls marked idempotent, or are pushes with an
     * idempotencyKey; the others end in ConnectionLost. After a fork the child opens its own connection.
     *
     * @param string|null $socket         path of the broker's socket; default: env STOKER_SOCKET, else ./stoker.sock
     * @param bool        $persistent     keep the connection open between requests of php-fpm: a request with one
     *                                    call took 18 µs, and 39 µs with a connection of its own
     * @param float|null  $timeout        for each request that names none; null = the service's own, on the broker
     * @param float       $connectTimeout for opening the connection
     * @param float       $reconnectFor   how long to go on trying to connect, with growing pauses of 0.1 to 5 seconds,
     *                                    within a request's timeout; 0 = once. With 30, say, a client survives a
     *                                    restart of the broker, also one that drains and refuses with Unavailable
     * @param string|null $name           who this is, for people; default: the script's name
     * @throws ConnectionRefused nobody listens there
     */
    public static function connect(
        ?string $socket = null,
        bool $persistent = false,
        ?float $timeout = null,
        float $connectTimeout = 1.0,
        float $reconnectFor = 0.0,
        ?string $name = null,
    ): self {
        $hello = [
            'v' => [1],
            'role' => 'client',
            'name' => $name ?? basename($_SERVER['SCRIPT_NAME'] ?? 'php'),
        ];
        if (($worker = getenv('STOKER_WORKER')) !== false) {
            $hello['worker'] = $worker;
        }
        $link = new Link($socket ?? (getenv('STOKER_SOCKET') ?: './stoker.sock'), $hello, $persistent, $connectTimeout, $reconnectFor);
        $link->open(null);

        return new self($link, $timeout);
    }

    /**
     * Calls a method and waits for its answer.
     *
     * @param string             $name       "service.method"
     * @param float|null         $timeout    0.001 to 4294967; the client waits a quarter of a second longer, for the
     *                                       broker to say itself that the time is up
     * @param int|null           $priority   0 (first) to 7 (last); default: that of the running task, else 3
     * @param bool               $idempotent it may run more than once, if a worker dies or the connection is lost
     * @param string|null        $key        fairness key (tenant), 1 to 200 bytes
     * @param array<int, string> $meta       metadata: constants of Wire\Key, or your own keys 0x80 to 0xFE
     * @return mixed what the handler returned: JSON as arrays and scalars, a string as it is
     * @throws InvalidRequest   an argument is out of range, or the broker finds the request wrong
     * @throws DeadlineExceeded
     * @throws CallFailed       the handler threw
     * @throws NoWorker|WorkerDied|Quarantined|Overloaded|Unavailable|PermissionDenied|NotFound
     * @throws ConnectionRefused|ConnectionLost
     */
    public function call(
        string $name,
        mixed $body = null,
        ?float $timeout = null,
        ?int $priority = null,
        bool $idempotent = false,
        ?string $key = null,
        array $meta = [],
    ): mixed {
        return $this->callAsync($name, $body, $timeout, $priority, $idempotent, $key, $meta)->await();
    }

    /**
     * Begins a call. It is sent, together with others begun, as soon as one of them is awaited.
     *
     * Parameters as for call().
     *
     * @throws InvalidRequest|DeadlineExceeded an argument is out of range, the running task has no time left; all
     *                                         other errors come from Pending::await()
     */
    public function callAsync(
        string $name,
        mixed $body = null,
        ?float $timeout = null,
        ?int $priority = null,
        bool $idempotent = false,
        ?string $key = null,
        array $meta = [],
    ): Pending {
        $deadline = $this->requests->deadline($name, $timeout);
        $flags = $idempotent ? Flag::IDEMPOTENT : 0;

        return $this->submit($this->requests->call($name, $body, $deadline, $priority, $flags, $key, $meta));
    }

    /**
     * Calls several methods at once, in one round trip, and waits for all answers.
     *
     *     [$user, $cart] = $stoker->callAll([['users.get', ['id' => 1]], ['carts.get', ['id' => 1]]]);
     *
     * @param array<array-key, array{0: string, 1?: mixed}> $calls name and body of each
     * @param float|null $timeout    for all of them together; see call(), as for the other parameters
     * @param bool       $throw      true: when one failed, its exception is thrown, after all have ended.
     *                               false: the exception stands in the place of the answer
     * @return array<array-key, mixed> the answers, with the keys of $calls
     * @throws StokerException see call()
     */
    public function callAll(
        array $calls,
        ?float $timeout = null,
        ?int $priority = null,
        bool $idempotent = false,
        ?string $key = null,
        bool $throw = true,
    ): array {
        $pending = $results = [];
        $failure = null;
        $deadline = $this->requests->deadline('callAll', $timeout);
        $flags = $idempotent ? Flag::IDEMPOTENT : 0;
        foreach ($calls as $i => $call) {
            $request = $this->requests->call($call[0], $call[1] ?? null, $deadline, $priority, $flags, $key, []);
            $pending[$i] = $this->submit($request);
        }
        foreach ($pending as $i => $one) {
            try {
                $results[$i] = $one->await();
            } catch (StokerException $e) {
                $failure ??= $e;
                $results[$i] = $e;
            }
        }
        if ($throw && $failure !== null) {
            throw $failure;
        }

        return $results;
    }

    /**
     * Calls a method and waits for nothing: no answer, no error. Returns when the system has taken the bytes.
     *
     * Parameters as for call().
     *
     * @throws InvalidRequest    an argument is out of range
     * @throws ConnectionRefused|ConnectionLost it can't be sent
     */
    public function notify(string $name, mixed $body = null, ?int $priority = null, ?string $key = null, array $meta = []): void
    {
        $this->submit($this->requests->call($name, $body, null, $priority, Flag::ONEWAY, $key, $meta))->await();
    }

    /**
     * Puts a job into a queue. When it returns, the broker has the job; on disk, if the queue is durable.
     *
     * @param float|\DateTimeInterface|null $delay seconds from now, or the time at which it is due
     * @param int|null    $priority       0 (first) to 7 (last), 3 is usual
     * @param string|null $key            fairness key (tenant), 1 to 200 bytes
     * @param int|null    $tries          runs allowed, the first included, 0 to 65535; 0 = no limit; null = the queue's
     * @param list<float> $backoff        seconds before the 2nd run, the 3rd, …, at most 100; the last repeats.
     *                                    Empty = the queue's
     * @param float|null  $timeout        the longest that one run may take, 0.001 to 4294967; null = the queue's
     * @param string|null $unique         1 to 200 bytes; refused while another job with it waits or runs
     * @param string|null $idempotencyKey 1 to 200 bytes; a second push with it returns the first one's id. So the
     *                                    client may send it again by itself when the connection is lost
     * @return string the job's id, a UUIDv7
     * @throws InvalidRequest an argument is out of range
     * @throws AlreadyExists  the unique key is taken; $jobId tells by which job
     * @throws NotFound       there is no such queue
     * @throws Overloaded|Unavailable|PermissionDenied|DeadlineExceeded|ConnectionRefused
     * @throws ConnectionLost the job may or may not have been accepted, unless $notProcessed is true
     */
    public function push(
        string $queue,
        mixed $body = null,
        float|\DateTimeInterface|null $delay = null,
        ?int $priority = null,
        ?string $key = null,
        ?int $tries = null,
        array $backoff = [],
        ?float $timeout = null,
        ?string $unique = null,
        ?string $idempotencyKey = null,
    ): string {
        return $this->submit($this->requests->push(
            $queue,
            $body,
            $delay,
            $priority,
            $key,
            $tries,
            $backoff,
            $timeout,
            $unique,
            $idempotencyKey,
        ))->await();
    }

    /**
     * Puts many jobs into a queue, many in each write; a generator of a million is fine.
     *
     * After the first failure no more are sent. Its exception is thrown when those on their way have ended, and
     * names in $accepted the jobs that are in.
     *
     * Parameters as for push().
     *
     * @param iterable<array-key, mixed> $bodies
     * @return array<array-key, string> the jobs' ids, with the keys of $bodies
     * @throws StokerException see push()
     */
    public function pushMany(
        string $queue,
        iterable $bodies,
        float|\DateTimeInterface|null $delay = null,
        ?int $priority = null,
        ?string $key = null,
        ?int $tries = null,
        array $backoff = [],
        ?float $timeout = null,
    ): array {
        /** @var \SplQueue<array{array-key, Pending}> $open */
        $open = new \SplQueue();
        $ids = [];
        $failure = null;
        $collect = function (bool $wait) use ($open, &$ids, &$failure): void {
            while (!$open->isEmpty() && ($wait || $open->bottom()[1]->isDone())) {
                [$i, $one] = $open->dequeue();
                try {
                    $ids[$i] = $one->await();
                } catch (StokerException $e) {
                    $failure ??= $e;
                }
            }
        };
        foreach ($bodies as $i => $body) {
            $one = $this->requests->push($queue, $body, $delay, $priority, $key, $tries, $backoff, $timeout);
            $open->enqueue([$i, $this->submit($one)]);
            $collect(false);
            if ($failure !== null) {
                break;
            }
        }
        $collect(true);
        if ($failure !== null) {
            $failure->accepted = $ids;
            throw $failure;
        }

        return $ids;
    }

    /**
     * What became of a job; null when the broker knows none with that id.
     *
     * @param string $id as push() returned it
     * @return array<string, mixed>|null id, queue, state (ready, delayed, running, retrying, done, failed, cancelled,
     *                                   suspended), attempt, crashes, priority, key, created_at, due_at, error
     * @throws StokerException see call()
     */
    public function job(string $id): ?array
    {
        try {
            return $this->admin('job', ['op' => 'show', 'id' => $id]);
        } catch (NotFound) {
            return null;
        }
    }

    /**
     * All queues, with what waits and runs in them.
     *
     * @return list<array<string, mixed>> docs/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function queues(): array
    {
        return $this->admin('queue', ['op' => 'list'])['queues'];
    }

    /**
     * All workers, with what they do now.
     *
     * @return list<array<string, mixed>> docs/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function workers(): array
    {
        return $this->admin('worker', ['op' => 'list'])['workers'];
    }

    /**
     * All pools, with their sizes and health.
     *
     * @return list<array<string, mixed>> docs/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function pools(): array
    {
        return $this->admin('worker', ['op' => 'list'])['pools'];
    }

    /**
     * Starts no more jobs of a queue; those that run go on, and pushes are accepted.
     *
     * @throws PermissionDenied only the broker's own user and root may
     * @throws StokerException  see call()
     */
    public function pause(string $queue): void
    {
        $this->admin('queue', ['op' => 'pause', 'queue' => $queue]);
    }

    /**
     * Undoes pause().
     *
     * @throws PermissionDenied only the broker's own user and root may
     * @throws StokerException  see call()
     */
    public function resume(string $queue): void
    {
        $this->admin('queue', ['op' => 'resume', 'queue' => $queue]);
    }

    /**
     * Any of the broker's own methods: docs/protocol.md, section 9.
     *
     *     $stoker->admin('pool', ['op' => 'scale', 'pool' => 'app', 'min' => 2, 'max' => 8]);
     *
     * @param string               $name "job", "queue", "worker", "pool", "quarantine", with or without "stoker."
     * @param array<string, mixed> $body
     * @throws StokerException see call()
     */
    public function admin(string $name, array $body = [], ?float $timeout = null): mixed
    {
        $name = str_starts_with($name, 'stoker.') ? $name : "stoker.$name";

        return $this->call($name, (object) $body, $timeout);
    }

    /** Ends the connection. Requests under way end in ConnectionLost; the next request opens a new one. */
    public function close(): void
    {
        $this->link->close();
    }

    private function submit(Pending $request): Pending
    {
        $this->link->submit($request);

        return $request;
    }
}
