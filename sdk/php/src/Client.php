<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Link;
use Stoker\Internal\Requests;
use Stoker\Internal\Selection;
use Stoker\Wire\Codec;
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
    /** Bytes of jobs in one request of import(). */
    private const BATCH = 4 << 20;

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
     * @param float|null  $timeout        for each request that names none, and for opening the first connection; null =
     *                                    the service's own, on the broker
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
        $link->open($timeout === null ? null : hrtime(true) + (int) ($timeout * 1e9));

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
     * @param float|null  $timeout        the longest that one run may take, 0.001 to 4294967; null = the pool's
     * @param string|null $unique         1 to 200 bytes; refused while another job of the queue with it waits or runs
     * @param string|null $idempotencyKey 1 to 200 bytes; a second push with it returns the first one's id. So the
     *                                    client may send it again by itself when the connection is lost
     * @param bool        $failOnTimeout  a run that overran its time is the last, whatever tries are left
     * @param float|\DateTimeInterface|null $retryUntil a run that fails after it is the last; until then tries do not
     *                                    count. A number is Unix time in seconds
     * @param int|null    $maxExceptions  runs that may end in an error, 1 to 65535; being released is none
     * @param bool        $uniqueUntilStart the unique key is free again as soon as the first run starts
     * @param float|null  $uniqueFor      seconds after which the unique key is free in any case
     * @param float|\DateTimeInterface|null $dueAt as a delay that is a moment; a number is Unix time in seconds
     * @param string|null $type           what it is, for people and filters, 1 to 255 bytes: a class or a name
     * @param float|null  $keepResult     seconds for which its result is kept; null = the queue's
     * @return string the job's id, a UUIDv7
     * @throws InvalidRequest an argument is out of range
     * @throws AlreadyExists  the unique key is taken; $jobId tells by which job, null if that is another user's
     * @throws NotFound       there is no such queue
     * @throws Overloaded|Unavailable|PermissionDenied|DeadlineExceeded|ConnectionRefused
     * @throws ConnectionLost the job may or may not have been accepted, unless $notProcessed is true
     * @throws InDoubt        the same, and the broker does not know either: its disk fails
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
        bool $failOnTimeout = false,
        float|\DateTimeInterface|null $retryUntil = null,
        ?int $maxExceptions = null,
        bool $uniqueUntilStart = false,
        ?float $uniqueFor = null,
        float|\DateTimeInterface|null $dueAt = null,
        ?string $type = null,
        ?float $keepResult = null,
    ): string {
        return $this->submit($this->requests->push($queue, $body, compact(
            'delay', 'priority', 'key', 'tries', 'backoff', 'timeout', 'unique', 'idempotencyKey',
            'failOnTimeout', 'retryUntil', 'maxExceptions', 'uniqueUntilStart', 'uniqueFor', 'dueAt', 'type',
            'keepResult',
        )))->await();
    }

    /**
     * Begins a push. It is sent, together with others begun, as soon as one of them is awaited; Pending::await()
     * returns the id. For jobs of different queues or options in one round trip.
     *
     * Parameters as for push().
     *
     * @throws InvalidRequest an argument is out of range; all other errors come from Pending::await()
     */
    public function pushAsync(
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
        bool $failOnTimeout = false,
        float|\DateTimeInterface|null $retryUntil = null,
        ?int $maxExceptions = null,
        bool $uniqueUntilStart = false,
        ?float $uniqueFor = null,
        float|\DateTimeInterface|null $dueAt = null,
        ?string $type = null,
        ?float $keepResult = null,
    ): Pending {
        return $this->submit($this->requests->push($queue, $body, compact(
            'delay', 'priority', 'key', 'tries', 'backoff', 'timeout', 'unique', 'idempotencyKey',
            'failOnTimeout', 'retryUntil', 'maxExceptions', 'uniqueUntilStart', 'uniqueFor', 'dueAt', 'type',
            'keepResult',
        )));
    }

    /**
     * Puts many jobs into a queue in one round trip, many in each write; a generator of a million is fine.
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
        bool $failOnTimeout = false,
        float|\DateTimeInterface|null $retryUntil = null,
        ?int $maxExceptions = null,
        float|\DateTimeInterface|null $dueAt = null,
        ?string $type = null,
        ?float $keepResult = null,
    ): array {
        $options = compact(
            'delay', 'priority', 'key', 'tries', 'backoff', 'timeout', 'failOnTimeout', 'retryUntil',
            'maxExceptions', 'dueAt', 'type', 'keepResult',
        );
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
            $open->enqueue([$i, $this->submit($this->requests->push($queue, $body, $options))]);
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
     * What became of a job; null when the broker knows none with that id (any more).
     *
     * @param string $id as push() returned it
     * @return array<string, mixed>|null id, queue, state (ready, delayed, running, retrying, suspended, done, failed,
     *                                   cancelled), type, attempt, exceptions, crashes, tries, priority, key, created_at,
     *                                   due_at, ended_at, ran_ms, error, progress, body, codec, result, output,
     *                                   checkpoint, history
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
     * One line of a job's history, whole: job() cuts texts at 64 KiB, and the payload before an edit may be longer.
     *
     * @param string $id     as push() returned it
     * @param int    $number from 1, in the order of job()'s `history`
     * @return array{at: string, what: string, text: string}|null null when there is no such job or line (any more)
     * @throws StokerException see call()
     */
    public function note(string $id, int $number): ?array
    {
        try {
            return $this->admin('job', ['op' => 'show', 'id' => $id, 'note' => $number]);
        } catch (NotFound) {
            return null;
        }
    }

    /**
     * Jobs, oldest first, fetched page by page while you go through them.
     *
     *     foreach ($stoker->jobs(['queue' => 'emails', 'state' => 'failed']) as $job) { … }
     *
     * @param array<string, mixed> $filter any of: queue; state, as in job(); type; error, the class of it; fingerprint,
     *                                     of failures(); key; older, seconds since its end, or since its push if it has
     *                                     not ended. Empty = all jobs
     * @param int $page jobs per request, 1 to 1000
     * @return \Generator<int, array<string, mixed>> as job(), without body, result, output, checkpoint and history
     * @throws InvalidRequest   a filter that there is not
     * @throws PermissionDenied only the broker's own user and root may; so for all that follows
     * @throws StokerException  see call()
     */
    public function jobs(array $filter = [], int $page = 100): \Generator
    {
        return $this->pages('list', $filter, $page);
    }

    /**
     * How many jobs a filter means.
     *
     * @param array<string, mixed> $filter see jobs()
     * @throws StokerException see jobs()
     */
    public function countJobs(array $filter = []): int
    {
        return $this->admin('job', ['op' => 'count'] + Selection::filter($filter))['count'];
    }

    /**
     * Failed jobs, in groups of those that failed of the same thing.
     *
     *     foreach ($stoker->failures() as $group) { $stoker->retry(['fingerprint' => $group['fingerprint']]); }
     *
     * @param array<string, mixed> $filter see jobs()
     * @return list<array<string, mixed>> the largest first: fingerprint, count, queue, first_at, last_at, job (the id
     *                                    of one), error
     * @throws StokerException see jobs()
     */
    public function failures(array $filter = [], int $limit = 100): array
    {
        return $this->admin('job', ['op' => 'groups', 'limit' => $limit] + Selection::filter($filter))['groups'];
    }

    /**
     * Runs failed or cancelled jobs again, with all their tries.
     *
     * @param string|array<string, mixed> $which an id, or a filter as for jobs(), or ['all' => true]; so for all that
     *                                           follows
     * @param int|null $perSecond             many at this rate, 1 to 1000000; null = at once
     * @return int how many; jobs that are in no fitting state are left as they are
     * @throws NotFound        there is no job with this id
     * @throws InvalidRequest  the one job named is in no fitting state, or the filter is none
     * @throws StokerException see jobs()
     */
    public function retry(string|array $which, ?int $perSecond = null): int
    {
        return $this->change('retry', $which, $perSecond === null ? [] : ['per_second' => $perSecond]);
    }

    /**
     * Ends jobs that are not finished. One that runs ends too, with its worker if it does not stop by itself.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int how many
     * @throws StokerException see retry()
     */
    public function cancel(string|array $which): int
    {
        return $this->change('cancel', $which);
    }

    /**
     * Forgets jobs that are finished: done, failed or cancelled.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int how many
     * @throws StokerException see retry()
     */
    public function discard(string|array $which): int
    {
        return $this->change('discard', $which);
    }

    /**
     * Has jobs that wait go on waiting until they are released.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int how many
     * @throws StokerException see retry()
     */
    public function suspend(string|array $which): int
    {
        return $this->change('suspend', $which);
    }

    /**
     * Lets suspended jobs and such that wait for their time go now.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int how many
     * @throws StokerException see retry()
     */
    public function release(string|array $which): int
    {
        return $this->change('release', $which);
    }

    /**
     * Moves jobs that wait or have failed to another queue. Those that run stay.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int how many
     * @throws NotFound        there is no such queue
     * @throws StokerException see retry()
     */
    public function move(string|array $which, string $queue): int
    {
        return $this->change('move', $which, ['to' => $queue]);
    }

    /**
     * Gives a job another body: one that has failed, is cancelled or suspended, or waits for its time.
     *
     * @param mixed $body as for push(), but text: bytes that are no UTF-8 can't be sent
     * @throws StokerException see retry()
     */
    public function edit(string $id, mixed $body): void
    {
        [$codec, $text] = Codec::encode($body ?? '');
        $this->change('edit', $id, ['body' => $text, 'codec' => $codec]);
    }

    /**
     * Jobs with all that another store needs to go on with them. The jobs stay where they are.
     *
     * @param array<string, mixed> $filter see jobs()
     * @param int $page jobs per request, 1 to 1000; fewer, if their bodies are large
     * @return \Generator<int, array<string, mixed>> one at a time, to be written as lines of JSON, say
     * @throws StokerException see jobs()
     */
    public function export(array $filter = [], int $page = 100): \Generator
    {
        return $this->pages('export', $filter, $page);
    }

    /**
     * Takes jobs that export() gave, here or on another broker. They get new ids, and their queues must exist.
     *
     * @param iterable<array<string, mixed>> $jobs
     * @return int how many; jobs before one that is refused are in
     * @throws StokerException see jobs()
     */
    public function import(iterable $jobs): int
    {
        $count = $bytes = 0;
        $batch = [];
        foreach ($jobs as $job) {
            $batch[] = $job;
            $bytes += strlen(Codec::json($job));
            if (count($batch) === 1000 || $bytes > self::BATCH) {
                $count += $this->admin('job', ['op' => 'import', 'jobs' => $batch])['count'];
                [$batch, $bytes] = [[], 0];
            }
        }

        return $batch === [] ? $count : $count + $this->admin('job', ['op' => 'import', 'jobs' => $batch])['count'];
    }

    /**
     * All queues, with what waits and runs in them.
     *
     * @return list<array<string, mixed>> docs/reference/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function queues(): array
    {
        return $this->admin('queue', ['op' => 'list'])['queues'];
    }

    /**
     * All workers, with what they do now.
     *
     * @return list<array<string, mixed>> docs/reference/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function workers(): array
    {
        return $this->admin('worker', ['op' => 'list'])['workers'];
    }

    /**
     * All pools, with their sizes and health.
     *
     * @return list<array<string, mixed>> docs/reference/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function pools(): array
    {
        return $this->admin('worker', ['op' => 'list'])['pools'];
    }

    /**
     * Starts no more jobs of a queue; those that run go on, and pushes are accepted.
     *
     * @param bool $create make the queue if nothing was pushed to it yet; otherwise an unknown name is refused
     * @throws PermissionDenied only the broker's own user and root may
     * @throws StokerException  see call()
     */
    public function pause(string $queue, bool $create = false): void
    {
        $this->admin('queue', ['op' => 'pause', 'queue' => $queue] + ($create ? ['create' => true] : []));
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
     * Any of the broker's own methods: docs/reference/protocol.md, section 9.
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

    /** @param array<string, mixed> $more */
    private function change(string $op, string|array $which, array $more = []): int
    {
        return $this->admin('job', ['op' => $op] + Selection::of($which) + $more)['count'];
    }

    /**
     * @param array<string, mixed> $filter
     * @return \Generator<int, array<string, mixed>>
     */
    private function pages(string $op, array $filter, int $page): \Generator
    {
        $ask = ['op' => $op, 'limit' => $page] + Selection::filter($filter);

        return (function () use ($ask): \Generator {
            while (true) {
                try {
                    $answer = $this->admin('job', $ask);
                } catch (Overloaded $e) {
                    // A page of large jobs is longer than a frame.
                    $ask['limit'] = $ask['limit'] > 1 ? intdiv($ask['limit'], 2) : throw $e;
                    continue;
                }
                foreach ($answer['jobs'] as $job) {
                    yield $job;
                }
                if ($answer['next'] === null) {
                    return;
                }
                $ask['after'] = $answer['next'];
            }
        })();
    }

    private function submit(Pending $request): Pending
    {
        $this->link->submit($request);

        return $request;
    }
}
