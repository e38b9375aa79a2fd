<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Child;
use Stoker\Internal\Http\Handler;
use Stoker\Internal\Loop;
use Stoker\Internal\Signals;
use Stoker\Internal\WorkerConnection;
use Stoker\Internal\Zygote;

/**
 * Runs the tasks that Stoker assigns to this process, one after another.
 *
 *     Worker::create()
 *         ->onCall('users.get', fn (Task $t) => ['id' => $t->json()['id']], idempotent: true)
 *         ->onJob('emails', fn (Task $t) => sendMail($t->json()))
 *         ->run();
 */
final class Worker
{
    private const NAME = '/^[A-Za-z0-9_.:\/@-]{1,255}$/D';

    /** @var array<string, callable(Task): mixed> */
    private array $calls = [];
    /** @var array<string, true> */
    private array $idempotent = [];
    /** @var array<string, callable(Task): mixed> */
    private array $jobs = [];
    /** Answers requests to sites that the pool gets later. */
    private ?Handler $requests = null;
    private bool $softCancel = false;

    private function __construct(
        private ?string $pool,
        private ?string $token,
        private ?string $name,
        private ?string $socket,
        private ?float $reconnectFor,
        private float $keepalive,
    ) {
        // PHP runs shutdown functions in the order in which they were registered. Registered early, this one closes the
        // task's output before other shutdown functions print.
        register_shutdown_function(static fn () => Loop::$active?->onShutdown());
    }

    /**
     * Creates a worker that serves nothing yet.
     *
     * If possible, create it before the rest of the application boots. Then, if the process dies in a task, output of
     * other shutdown functions goes to stdout and not to the task's log.
     *
     * All parameters except $name are for a worker that Stoker did not start. A worker that reaches its server over
     * tcp:// or tls:// survives a lost connection: it reconnects and delivers the answers that were lost with it.
     *
     * @param string|null $pool         the pool to join; default: env STOKER_POOL
     * @param string|null $token        token of that pool, if it has one, or over tcp:// and tls:// the token for this
     *                                  machine; default: env STOKER_TOKEN
     * @param string|null $name         name of this worker in the server's reports; default: the script's name
     * @param string|null $socket       address of the server, or several separated by commas: see Client::connect();
     *                                  default: env STOKER_URL, else STOKER_SOCKET
     * @param float|null  $reconnectFor over tcp:// and tls://: how long to keep trying to reconnect, in seconds, with
     *                                  random pauses of at most 0.1 seconds at first and 5 in the end; null = 60. Over
     *                                  a unix socket, a lost connection means that the server has ended
     * @param float       $keepalive    over tcp:// and tls://: if nothing arrives for this many seconds while this worker
     *                                  waits, it sends a PING; if nothing arrives for as long again, it treats the
     *                                  connection as lost; 0 = off
     */
    public static function create(
        ?string $pool = null,
        ?string $token = null,
        ?string $name = null,
        ?string $socket = null,
        ?float $reconnectFor = null,
        float $keepalive = 15.0,
    ): self {
        return new self($pool, $token, $name, $socket, $reconnectFor, $keepalive);
    }

    /**
     * Serves calls of a method.
     *
     * The handler's return value is the answer: a string is sent unchanged, everything else as JSON. An exception that
     * the handler throws reaches the caller as CallFailed.
     *
     * @param string               $method     "service.method", 1 to 255 characters from A-Z a-z 0-9 _ . : / @ -
     * @param callable(Task): mixed $handler
     * @param bool                 $idempotent whether calls may be retried if their worker dies
     * @throws \InvalidArgumentException the method's name is invalid
     */
    public function onCall(string $method, callable $handler, bool $idempotent = false): self
    {
        if (!preg_match(self::NAME, $method) || !strpos($method, '.') || str_starts_with($method, 'stoker.')) {
            throw new \InvalidArgumentException("invalid method \"$method\": expected service.method; stoker.* is reserved");
        }
        $this->calls[$method] = $handler;
        if ($idempotent) {
            $this->idempotent[$method] = true;
        }

        return $this;
    }

    /**
     * Serves the jobs of a queue.
     *
     * A job is done when its handler returns. An exception is a failed attempt; Task::release(), fail() and returned()
     * choose other outcomes. The handler's return value is kept as the job's result, which Client::job() shows. A result
     * larger than 64 KB is not kept, and the task's log says so.
     *
     * @param string               $queue   the queue's name, or "*" for every queue of the pool without a handler of its own
     * @param callable(Task): mixed $handler
     * @throws \InvalidArgumentException the queue's name is invalid
     */
    public function onJob(string $queue, callable $handler): self
    {
        if ($queue !== '*' && !preg_match(self::NAME, $queue)) {
            throw new \InvalidArgumentException("invalid queue name \"$queue\": expected 1 to 255 characters from A-Z a-z 0-9 _ . : / @ -");
        }
        $this->jobs[$queue] = $handler;

        return $this;
    }

    /**
     * Answers HTTP requests to sites.
     *
     * The handler returns the response: a Response, a response of PSR-7 or of Symfony's HttpFoundation, a string (status 200,
     * HTML), an array or JsonSerializable (JSON), an iterable of strings (HTML, sent while it is produced), or null (status
     * 204). If it throws BadRequest, the client gets that status; after any other exception the status 500, and Stoker's log
     * has the exception.
     *
     * @param callable(Http\Request): mixed $handler
     * @param list<string>|null $sites names of the sites; default: those of this worker's pool, from env STOKER_SITES, and
     *                                  those that a reload adds to the pool later
     * @throws \LogicException           there is no site: $sites is empty; or it is null, Stoker did not start this process,
     *                                   and STOKER_SITES is not set
     * @throws \InvalidArgumentException the name of a site is invalid
     */
    public function onRequest(callable $handler, ?array $sites = null): self
    {
        $handler = new Handler($handler);
        $this->requests = $sites === null ? $handler : $this->requests;
        foreach (Handler::methods($sites) as $method) {
            $this->onCall($method, $handler);
        }

        return $this;
    }

    /**
     * Throws TaskTimeout in a handler whose time is up, so that the handler can clean up. Without it, and if the handler
     * does not end after TaskTimeout, Stoker kills the process.
     *
     * @throws \LogicException ext-pcntl is missing
     */
    public function softCancel(): self
    {
        function_exists('pcntl_async_signals') or throw new \LogicException('softCancel() requires the PHP extension pcntl');
        $this->softCancel = true;

        return $this;
    }

    /** Called from a handler: run() answers the current task and returns. Stoker then starts a new worker. */
    public static function stop(): void
    {
        if (Loop::$active !== null) {
            Loop::$active->stopping = true;
        }
    }

    /**
     * Called from a handler: like stop(), and the application boots again. With strategy "fork" or "snapshot", stop() only ends this process,
     * and the next one is forked from the same booted application.
     */
    public static function reboot(): void
    {
        self::stop();
        Child::endZygote();
    }

    /**
     * Serves tasks until Stoker asks this worker to exit, the connection ends, or stop() is called.
     *
     * Over tcp:// and tls://, the worker reconnects if the connection is lost. A running handler continues during that time; its
     * output of that time is lost, but its answer is delivered. If the worker reconnects only after Stoker has ended its
     * session ([listen] resume_timeout), the answer is dropped, and a line on stderr says so.
     *
     * With ext-pcntl, TERM and INT do not interrupt a task, unless the application has its own handler for them. A worker
     * that Stoker started ignores them, because Stoker asks it over the socket to exit. A worker that connected by
     * itself finishes its task and returns. Without ext-pcntl, these signals kill the process in the middle of its task.
     *
     * With strategy "fork", this process forks workers, which serve the tasks, and this method does not return: a forked
     * process ends without running shutdown functions and destructors.
     *
     * @throws \LogicException   none of onCall(), onJob() and onRequest() was called, or this worker only answers requests and
     *                           its pool has no site, or the pool's strategy is "fork" and an
     *                           extension is missing that it needs, or it is "sapi"
     * @throws ConnectionRefused Stoker did not start this process, and no server can be reached
     * @throws ConnectionLost    over tcp:// or tls://: no attempt to reconnect succeeded within $reconnectFor
     * @throws InvalidRequest    an address is invalid
     * @throws StokerException   the server rejected this worker; the message says why
     * @throws Wire\WireError    the server sent bytes that are not a valid frame
     */
    public function run(): void
    {
        if ($this->calls === [] && $this->jobs === []) {
            throw $this->requests !== null ? Handler::withoutSite() : new \LogicException('this worker has no handlers: call onCall(), onJob() or onRequest() before run()');
        }
        if (\function_exists('stoker_payload') && !Zygote::isRequested()) {
            throw new \LogicException('strategy "sapi" runs this script once for each task, so it can\'t be a worker: get the task from stoker_payload() and print the result, or set strategy = "loop" in the pool\'s configuration');
        }
        $tasks = self::taskLimit();
        // With strategy "fork", this process forks the workers, and only they return from serve().
        $forked = Zygote::isRequested() ? (new Zygote())->serve() : null;
        $hello = [
            'v' => [1],
            'role' => 'worker',
            'name' => $this->name ?? basename($_SERVER['argv'][0] ?? 'php'),
            'pid' => getmypid(),
            // PHP converts a numeric name such as "7" to an integer when it is used as an array key.
            'calls' => array_map('strval', array_keys($this->calls)),
            'idempotent' => array_map('strval', array_keys($this->idempotent)),
            'jobs' => array_map('strval', array_keys($this->jobs)),
            'slots' => 1,
            'soft_cancel' => $this->softCancel,
        ];
        if ($tasks !== null) {
            $hello['tasks'] = $tasks;
        }
        $connection = $forked !== null ? WorkerConnection::forked($forked, $hello) : WorkerConnection::open($hello, $this->socket, $this->pool, $this->token, $this->reconnectFor, $this->keepalive);
        $loop = new Loop($connection->channel, $this->calls, $this->jobs, null, $tasks, $connection->session, $this->requests);
        $loop->signals->install($connection->isSpawned);
        if ($this->softCancel) {
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, Signals::softCancelActive(...));
        }
        $loop->run($connection);
        $forked === null || Child::end();
    }

    /**
     * The number of tasks that the pool's strategy allows this process; null = no limit. The variable is removed from the
     * environment, so that programs started from here do not inherit it.
     */
    private static function taskLimit(): ?int
    {
        $tasks = getenv('STOKER_TASKS');
        putenv('STOKER_TASKS');
        unset($_ENV['STOKER_TASKS'], $_SERVER['STOKER_TASKS']);

        return $tasks === false ? null : max(1, (int) $tasks);
    }
}
