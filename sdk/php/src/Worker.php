<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Channel;
use Stoker\Internal\Loop;
use Stoker\Internal\Socket;

/**
 * Runs the tasks that Stoker sends to this process, one after the other.
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
    private bool $softCancel = false;

    private function __construct(private ?string $pool, private ?string $token, private ?string $name)
    {
        // PHP runs shutdown functions in the order of their registration: the earlier, the less is printed before it.
        register_shutdown_function(static fn () => Loop::$active?->die());
    }

    /**
     * A worker that serves nothing yet.
     *
     * Create it before the rest of the application boots where you can: then, if the process dies in a task, what
     * other shutdown functions print goes to stdout and not to the task's log.
     *
     * @param string|null $pool  the pool to join, for a worker that Stoker did not start; default: env STOKER_POOL
     * @param string|null $token that pool's token, where it has one; default: env STOKER_TOKEN
     * @param string|null $name  who this is, for people; default: the script's name
     */
    public static function create(?string $pool = null, ?string $token = null, ?string $name = null): self
    {
        return new self($pool, $token, $name);
    }

    /**
     * Serves a method.
     *
     * What the handler returns is the answer: a string goes as it is, anything else as JSON. What it throws goes to
     * the caller as CallFailed.
     *
     * @param string               $method     "service.method", 1 to 255 of A-Z a-z 0-9 _ . : / @ -
     * @param callable(Task): mixed $handler
     * @param bool                 $idempotent it may run again if its worker dies
     * @throws \InvalidArgumentException the name can't be one
     */
    public function onCall(string $method, callable $handler, bool $idempotent = false): self
    {
        if (!preg_match(self::NAME, $method) || !strpos($method, '.') || str_starts_with($method, 'stoker.')) {
            throw new \InvalidArgumentException("\"$method\" can't be a method: write service.method, and not stoker.*");
        }
        $this->calls[$method] = $handler;
        if ($idempotent) {
            $this->idempotent[$method] = true;
        }

        return $this;
    }

    /**
     * Runs the jobs of a queue.
     *
     * Returning ends the job well, an exception is a failed attempt, and Task::release(), fail() and returned() say
     * more. What the handler returns goes to the broker as the job's result, which Client::job() shows; more than
     * 64 KiB are not kept, and the task's log says so.
     *
     * @param string               $queue   the queue's name, or "*" for every queue of the pool without a handler of its own
     * @param callable(Task): mixed $handler
     * @throws \InvalidArgumentException the name can't be one
     */
    public function onJob(string $queue, callable $handler): self
    {
        if ($queue !== '*' && !preg_match(self::NAME, $queue)) {
            throw new \InvalidArgumentException("\"$queue\" can't be a queue: 1 to 255 of A-Z a-z 0-9 _ . : / @ -");
        }
        $this->jobs[$queue] = $handler;

        return $this;
    }

    /**
     * Lets a handler whose time is up end by an exception, TaskTimeout, rather than by the death of this process.
     *
     * @throws \LogicException ext-pcntl is missing
     */
    public function softCancel(): self
    {
        function_exists('pcntl_async_signals') or throw new \LogicException('softCancel() needs the extension pcntl');
        $this->softCancel = true;

        return $this;
    }

    /** From a handler: answer this task, take no more, and return from run(). Stoker then starts a new worker. */
    public static function stop(): void
    {
        if (Loop::$active !== null) {
            Loop::$active->stopping = true;
        }
    }

    /**
     * Serves until Stoker says to go, or is gone, or stop() is called.
     *
     * With ext-pcntl TERM and INT end no task, unless the application has a handler of its own for them. A worker that
     * Stoker started leaves them to Stoker, which says to go over the socket; one that dialled in finishes its task, and
     * goes. Without the extension they end the process, and the task with it.
     *
     * @throws \LogicException   nothing to serve
     * @throws ConnectionRefused Stoker did not start this process, and there is none to dial
     * @throws StokerException   the broker does not want this worker; the message says why
     * @throws Wire\WireError    the broker sent what is no frame
     */
    public function run(): void
    {
        if ($this->calls === [] && $this->jobs === []) {
            throw new \LogicException('this worker serves nothing: give it onCall() or onJob() before run()');
        }
        $hello = [
            'v' => [1],
            'role' => 'worker',
            'name' => $this->name ?? basename($_SERVER['argv'][0] ?? 'php'),
            'pid' => getmypid(),
            // A name such as "7" has become a number as the key of an array.
            'calls' => array_map('strval', array_keys($this->calls)),
            'idempotent' => array_map('strval', array_keys($this->idempotent)),
            'jobs' => array_map('strval', array_keys($this->jobs)),
            'slots' => 1,
            'soft_cancel' => $this->softCancel,
        ];
        if (($tasks = self::tasks()) !== null) {
            $hello['tasks'] = $tasks;
        }
        [$stream, $hello, $isSpawned] = Socket::ofWorker($hello, null, $this->pool, $this->token);
        $loop = new Loop(new Channel($stream), $this->calls, $this->jobs, null, $tasks);
        $loop->hearSignals($isSpawned);
        if ($this->softCancel) {
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, Loop::strike(...));
        }
        $loop->run($hello);
    }

    /** How many tasks the pool's strategy lets this process take. Programs that it starts are not meant. */
    private static function tasks(): ?int
    {
        $tasks = getenv('STOKER_TASKS');
        putenv('STOKER_TASKS');
        unset($_ENV['STOKER_TASKS'], $_SERVER['STOKER_TASKS']);

        return $tasks === false ? null : max(1, (int) $tasks);
    }
}
