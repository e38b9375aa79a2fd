<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Limits;
use Stoker\Internal\Link;
use Stoker\Internal\Requests;
use Stoker\Internal\Selection;
use Stoker\Internal\Servers;
use Stoker\Wire\Codec;
use Stoker\Wire\Flag;

/**
 * Calls methods and pushes jobs.
 *
 *     $stoker = Client::connect();
 *     $user = $stoker->call('users.get', ['id' => 1], timeout: 0.2);
 *     $id = $stoker->push('emails', ['to' => 'ada@example.org'], delay: 30);
 *
 * A body may be any value: null is sent as an empty body, a string unchanged, and everything else as JSON. All times
 * are in seconds.
 *
 * A call that is made in a handler of Worker inherits the task's remaining time, its priority and its trace context,
 * and names the task that waits for it to the server.
 */
final class Client
{
    /** Bytes of JSON after which import() sends a request. */
    private const BATCH_BYTES = 4 << 20;

    private Requests $requests;

    private function __construct(private Link $link, ?float $timeout)
    {
        $this->requests = new Requests($link, $timeout);
    }

    /**
     * Connects to a Stoker server.
     *
     * The client reopens a lost connection automatically: at once if requests are in flight, otherwise at the next
     * request. It repeats requests that cannot have reached the server, calls that are marked idempotent, and pushes
     * with an idempotencyKey; all other requests in flight end in ConnectionLost. After a fork the child opens its own
     * connection.
     *
     * @param string|null $socket         address of the server: a path or unix:///path, tcp://host:port, or
     *                                    tls://host:port with any of the parameters ca (file with the accepted CA
     *                                    certificates; default: those of the system), name (name that the server's
     *                                    certificate must have; default: the host), cert and key (files of a client
     *                                    certificate), such as tls://stoker.internal:7007?ca=/etc/stoker/ca.pem.
     *                                    Several addresses, separated by commas, are tried in turn. Default: env
     *                                    STOKER_URL, else STOKER_SOCKET, else ./stoker.sock; in a process that Stoker
     *                                    started, STOKER_SOCKET before STOKER_URL
     * @param bool        $persistent     keep the connection open between requests of php-fpm. A request with one call
     *                                    took 18 µs with a persistent connection and 39 µs with a new one
     * @param float|null  $timeout        default timeout of requests that name none, and limit for opening the first
     *                                    connection; null = the server's default for the service
     * @param float       $connectTimeout limit for one attempt to connect to one address, including the TLS handshake
     * @param float       $reconnectFor   for how long to keep trying to connect, with random pauses of at most 0.1
     *                                    seconds at first and 5 in the end, within a request's timeout; 0 = one attempt. With 30, for example,
     *                                    a client survives a restart of the server, including the time in which the
     *                                    server drains and rejects requests as Unavailable
     * @param string|null $name           name of this client in the server's reports; default: the script's name
     * @param string|null $token          token for tcp:// and tls://; default: env STOKER_TOKEN. Not sent over a unix
     *                                    socket, where the server knows the user
     * @param float       $keepalive      over tcp:// and tls://: if nothing arrives for this many seconds while the
     *                                    client waits for an answer, it sends a PING; if nothing arrives for as long
     *                                    again, it treats the connection as lost; 0 = off
     * @throws ConnectionRefused the server cannot be reached
     * @throws InvalidRequest    an address is invalid
     */
    public static function connect(
        ?string $socket = null,
        bool $persistent = false,
        ?float $timeout = null,
        float $connectTimeout = 1.0,
        float $reconnectFor = 0.0,
        ?string $name = null,
        ?string $token = null,
        float $keepalive = 15.0,
    ): self {
        $keepalive >= 0 || Limits::ms('keepalive', $keepalive);
        $hello = [
            'v' => [1],
            'role' => 'client',
            'name' => $name ?? basename($_SERVER['SCRIPT_NAME'] ?? 'php'),
        ];
        if (($worker = getenv('STOKER_WORKER')) !== false) {
            $hello['worker'] = $worker;
        }
        $servers = Servers::find($socket) ?? Servers::find('./stoker.sock');
        $token ??= getenv('STOKER_TOKEN') ?: null;
        $link = new Link($servers, $hello, $token, $persistent, $connectTimeout, $reconnectFor, $keepalive);
        $link->open($timeout === null ? null : hrtime(true) + (int) ($timeout * 1e9));

        return new self($link, $timeout);
    }

    /**
     * Calls a method and waits for its answer.
     *
     * @param string             $name       "service.method"
     * @param float|null         $timeout    0.001 to 4294967; the client waits 0.25 seconds longer, so that the server
     *                                       can report the timeout itself
     * @param int|null           $priority   0 (first) to 7 (last); default: that of the running task, else 3
     * @param bool               $idempotent the call may run again if a worker dies or the connection is lost
     * @param string|null        $key        fairness key (tenant), 1 to 200 bytes
     * @param array<int, string> $meta       metadata by key: constants of Wire\Key, or your own keys 0x80 to 0xFE
     * @return mixed the return value of the handler: a string unchanged, everything else as JSON decodes it (objects as
     *               arrays)
     * @throws InvalidRequest   an argument is out of range, or the server rejected the request as invalid
     * @throws DeadlineExceeded
     * @throws CallFailed       the handler threw an exception
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
     * Starts a call without waiting for its answer. Started calls are sent together, when one of them is awaited or
     * 64 KB have accumulated.
     *
     * Parameters as for call().
     *
     * @throws InvalidRequest|DeadlineExceeded an argument is out of range, or the running task has no time left; all
     *                                         other errors are thrown by Pending::await()
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
     * Makes several calls at once, in one round trip, and waits for all answers.
     *
     *     [$user, $cart] = $stoker->callAll([['users.get', ['id' => 1]], ['carts.get', ['id' => 1]]]);
     *
     * The other parameters are the same as in call() and apply to every call.
     *
     * @param array<array-key, array{0: string, 1?: mixed}> $calls name and body of each call
     * @param float|null $timeout    for all calls together, see call()
     * @param bool       $throw      true: if a call fails, throw the first exception after all calls have ended.
     *                               false: return the exception in place of the answer
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
     * Sends a call without waiting for an answer or an error. Returns when the bytes have been written to the socket.
     *
     * Parameters as for call().
     *
     * @throws InvalidRequest    an argument is out of range
     * @throws ConnectionRefused|ConnectionLost the call could not be sent
     */
    public function notify(string $name, mixed $body = null, ?int $priority = null, ?string $key = null, array $meta = []): void
    {
        $this->submit($this->requests->call($name, $body, null, $priority, Flag::ONEWAY, $key, $meta))->await();
    }

    /**
     * Pushes a job to a queue. When it returns, the server has accepted the job and, if the queue is durable, has written
     * and synced it to disk.
     *
     * @param float|\DateTimeInterface|null $delay seconds from now, or the time at which the job is due
     * @param int|null    $priority       0 (first) to 7 (last); null = 3
     * @param string|null $key            fairness key (tenant), 1 to 200 bytes
     * @param int|null    $tries          maximum number of runs, including the first, 0 to 65535; 0 = no limit; null =
     *                                    the queue's setting
     * @param list<float> $backoff        seconds to wait before the 2nd run, the 3rd, …, at most 100 values; the last one
     *                                    repeats. Empty = the queue's setting
     * @param float|null  $timeout        maximum duration of one run, 0.001 to 4294967; null = the pool's setting
     * @param string|null $unique         unique key, 1 to 200 bytes; the push is rejected while another job of the queue
     *                                    with this key waits or runs
     * @param string|null $idempotencyKey 1 to 200 bytes; a second push with the same key returns the id of the first job,
     *                                    so the client can repeat the push if the connection is lost
     * @param bool        $failOnTimeout  a run that exceeds its timeout is the last, even if tries are left
     * @param float|\DateTimeInterface|null $retryUntil time after which a failed run is the last; until then tries are
     *                                    not counted. A number is Unix time in seconds
     * @param int|null    $maxExceptions  maximum number of runs that end in an error, 1 to 65535; releases do not count
     * @param bool        $uniqueUntilStart release the unique key as soon as the first run starts
     * @param float|null  $uniqueFor      maximum number of seconds for which the unique key is held
     * @param float|\DateTimeInterface|null $dueAt time at which the job is due, instead of $delay; a number is Unix time
     *                                    in seconds
     * @param string|null $type           class or name of the job, for reports and filters, 1 to 255 bytes
     * @param float|null  $keepResult     seconds for which the result is kept; null = the queue's setting
     * @return string the job's id, a UUIDv7
     * @throws InvalidRequest an argument is out of range
     * @throws AlreadyExists  the unique key is taken; $jobId is the job that holds it, or null if it is another user's
     * @throws NotFound       the queue does not exist
     * @throws Overloaded|Unavailable|PermissionDenied|DeadlineExceeded|ConnectionRefused
     * @throws ConnectionLost the job may or may not have been accepted, unless $notProcessed is true
     * @throws InDoubt        the job may or may not have been accepted, and the server cannot find out: its disk failed
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
     * Starts a push without waiting for its answer; Pending::await() returns the job's id. Use it to push jobs to
     * different queues, or with different options, in one round trip. Started pushes are sent together, when one of them is
     * awaited or 64 KB have accumulated.
     *
     * Parameters as for push().
     *
     * @throws InvalidRequest an argument is out of range; all other errors are thrown by Pending::await()
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
     * Pushes many jobs to a queue without waiting for each answer, and packs many jobs into each write. $bodies is read
     * as jobs are sent, so a generator of a million bodies needs little memory.
     *
     * After the first failure no more jobs are sent. Its exception is thrown when all pushes in flight have ended; its
     * $accepted property has the ids of the jobs that were accepted.
     *
     * The other parameters are the same as in push() and apply to every job.
     *
     * @param iterable<array-key, mixed> $bodies one body per job, as for push()
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
     * Returns a job with all its details; null if the server has no job with this id, or has deleted it.
     *
     * @param string $id the id that push() returned
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
     * Returns one entry of a job's history in full. job() cuts the text of entries at 64 KB; an entry can be longer, for
     * example if it has the payload before an edit.
     *
     * @param string $id     the id that push() returned
     * @param int    $number number of the entry in `history` of job(), from 1
     * @return array{at: string, what: string, text: string}|null null if there is no such job or entry, or it was deleted
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
     * Returns jobs, oldest first. They are fetched page by page while you iterate.
     *
     *     foreach ($stoker->jobs(['queue' => 'emails', 'state' => 'failed']) as $job) { … }
     *
     * @param array<string, mixed> $filter any of: queue; state, as in job(); type; error, the class of the error;
     *                                     fingerprint, from failureGroups(); key; older, the minimum number of seconds
     *                                     since the job ended or, if it has not ended, since it was pushed. A job must
     *                                     match all of them. Empty = all jobs
     * @param int $page jobs per request, 1 to 1000
     * @return \Generator<int, array<string, mixed>> as job(), without body, result, output, checkpoint and history
     * @throws InvalidRequest   the filter has an unknown key or an invalid value
     * @throws PermissionDenied the caller is neither root nor the server's own user
     * @throws StokerException  see call()
     */
    public function jobs(array $filter = [], int $page = 100): \Generator
    {
        return $this->pages('list', $filter, $page);
    }

    /**
     * Returns the number of jobs that match a filter.
     *
     * @param array<string, mixed> $filter see jobs()
     * @throws StokerException see jobs()
     */
    public function countJobs(array $filter = []): int
    {
        return $this->admin('job', ['op' => 'count'] + Selection::filter($filter))['count'];
    }

    /**
     * Returns failed jobs in groups of jobs with the same error.
     *
     *     foreach ($stoker->failureGroups() as $group) { $stoker->retry(['fingerprint' => $group['fingerprint']]); }
     *
     * @param array<string, mixed> $filter see jobs()
     * @param int $limit maximum number of groups, 1 to 1000
     * @return list<array<string, mixed>> the largest group first: fingerprint, count, queue, first_at, last_at, job (the
     *                                    id of one job of the group), error
     * @throws StokerException see jobs()
     */
    public function failureGroups(array $filter = [], int $limit = 100): array
    {
        return $this->admin('job', ['op' => 'groups', 'limit' => $limit] + Selection::filter($filter))['groups'];
    }

    /**
     * Retries failed or cancelled jobs. Their attempts are counted from zero again.
     *
     * @param string|array<string, mixed> $which an id, a filter as for jobs(), or ['all' => true]
     * @param int|null $perSecond maximum number of jobs that become due per second, 1 to 1000000; null = all at once
     * @return int number of retried jobs; jobs in another state are not changed
     * @throws NotFound        there is no job with this id
     * @throws InvalidRequest  the job with this id is in another state, or the filter is invalid
     * @throws StokerException see jobs()
     */
    public function retry(string|array $which, ?int $perSecond = null): int
    {
        return $this->change('retry', $which, $perSecond === null ? [] : ['per_second' => $perSecond]);
    }

    /**
     * Cancels jobs that have not ended. A running job is stopped; if it does not stop by itself, its worker is killed.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int number of cancelled jobs
     * @throws StokerException see retry()
     */
    public function cancel(string|array $which): int
    {
        return $this->change('cancel', $which);
    }

    /**
     * Deletes jobs that have ended: done, failed or cancelled.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int number of deleted jobs
     * @throws StokerException see retry()
     */
    public function discard(string|array $which): int
    {
        return $this->change('discard', $which);
    }

    /**
     * Suspends jobs that wait: they do not run until they are released.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int number of suspended jobs
     * @throws StokerException see retry()
     */
    public function suspend(string|array $which): int
    {
        return $this->change('suspend', $which);
    }

    /**
     * Makes suspended, delayed and retrying jobs ready to run now.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int number of released jobs
     * @throws StokerException see retry()
     */
    public function release(string|array $which): int
    {
        return $this->change('release', $which);
    }

    /**
     * Moves jobs that wait or have failed to another queue. Running jobs are not moved.
     *
     * @param string|array<string, mixed> $which see retry()
     * @return int number of moved jobs
     * @throws NotFound        there is no job with this id, or the queue does not exist
     * @throws StokerException see retry()
     */
    public function move(string|array $which, string $queue): int
    {
        return $this->change('move', $which, ['to' => $queue]);
    }

    /**
     * Replaces the body of a job that is failed, cancelled, suspended, delayed or retrying.
     *
     * @param string $id   the id that push() returned
     * @param mixed  $body as for push(), but a string must be valid UTF-8
     * @throws StokerException see retry()
     */
    public function edit(string $id, mixed $body): void
    {
        [$codec, $text] = Codec::encode($body ?? '');
        $this->change('edit', $id, ['body' => $text, 'codec' => $codec]);
    }

    /**
     * Returns jobs with everything that another server needs to continue them. The jobs are not removed.
     *
     * @param array<string, mixed> $filter see jobs()
     * @param int $page jobs per request, 1 to 1000; reduced automatically if the jobs are large
     * @return \Generator<int, array<string, mixed>> one job at a time; each can be encoded as JSON and given to import()
     * @throws StokerException see jobs()
     */
    public function export(array $filter = [], int $page = 100): \Generator
    {
        return $this->pages('export', $filter, $page);
    }

    /**
     * Imports jobs that export() returned, on this server or another one. They get new ids, and their queues must exist.
     *
     * Jobs are sent in batches. If a job is rejected, an exception is thrown, and the jobs before it stay imported.
     *
     * @param iterable<array<string, mixed>> $jobs
     * @return int number of imported jobs
     * @throws StokerException see jobs()
     */
    public function import(iterable $jobs): int
    {
        $count = $bytes = 0;
        $batch = [];
        foreach ($jobs as $job) {
            $batch[] = $job;
            $bytes += strlen(Codec::json($job));
            if (count($batch) === 1000 || $bytes > self::BATCH_BYTES) {
                $count += $this->admin('job', ['op' => 'import', 'jobs' => $batch])['count'];
                [$batch, $bytes] = [[], 0];
            }
        }

        return $batch === [] ? $count : $count + $this->admin('job', ['op' => 'import', 'jobs' => $batch])['count'];
    }

    /**
     * Returns all queues with the numbers of their waiting and running jobs.
     *
     * @return list<array<string, mixed>> docs/reference/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function queues(): array
    {
        return $this->admin('queue', ['op' => 'list'])['queues'];
    }

    /**
     * Returns all workers and the task that each of them runs.
     *
     * @return list<array<string, mixed>> docs/reference/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function workers(): array
    {
        return $this->admin('worker', ['op' => 'list'])['workers'];
    }

    /**
     * Returns all pools with their sizes and health.
     *
     * @return list<array<string, mixed>> docs/reference/protocol.md, section 9
     * @throws StokerException see call()
     */
    public function pools(): array
    {
        return $this->admin('worker', ['op' => 'list'])['pools'];
    }

    /**
     * Pauses a queue: none of its jobs is started. Running jobs continue, and pushes are accepted.
     *
     * @param bool $create create the queue if it does not exist yet; otherwise an unknown name is rejected with NotFound
     * @throws PermissionDenied the caller is neither root nor the server's own user
     * @throws StokerException  see call()
     */
    public function pause(string $queue, bool $create = false): void
    {
        $this->admin('queue', ['op' => 'pause', 'queue' => $queue] + ($create ? ['create' => true] : []));
    }

    /**
     * Resumes a queue that was paused with pause().
     *
     * @throws PermissionDenied the caller is neither root nor the server's own user
     * @throws StokerException  see call()
     */
    public function resume(string $queue): void
    {
        $this->admin('queue', ['op' => 'resume', 'queue' => $queue]);
    }

    /**
     * Calls one of the server's administration methods: docs/reference/protocol.md, section 9.
     *
     *     $stoker->admin('pool', ['op' => 'scale', 'pool' => 'app', 'min' => 2, 'max' => 8]);
     *
     * @param string               $name    such as "job", "queue", "worker", "pool" or "quarantine", with or without the
     *                                      prefix "stoker."
     * @param array<string, mixed> $body    fields of the request
     * @param float|null           $timeout see call()
     * @return mixed the decoded answer
     * @throws StokerException see call()
     */
    public function admin(string $name, array $body = [], ?float $timeout = null): mixed
    {
        $name = str_starts_with($name, 'stoker.') ? $name : "stoker.$name";

        return $this->call($name, (object) $body, $timeout);
    }

    /** Closes the connection. Requests in flight end in ConnectionLost; the next request opens a new connection. */
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
        $request = ['op' => $op, 'limit' => $page] + Selection::filter($filter);

        return (function () use ($request): \Generator {
            while (true) {
                try {
                    $answer = $this->admin('job', $request);
                } catch (Overloaded $e) {
                    // The page does not fit into one frame because its jobs are large: request half as many.
                    $request['limit'] = $request['limit'] > 1 ? intdiv($request['limit'], 2) : throw $e;
                    continue;
                }
                foreach ($answer['jobs'] as $job) {
                    yield $job;
                }
                if ($answer['next'] === null) {
                    return;
                }
                $request['after'] = $answer['next'];
            }
        })();
    }

    private function submit(Pending $request): Pending
    {
        $this->link->submit($request);

        return $request;
    }
}
