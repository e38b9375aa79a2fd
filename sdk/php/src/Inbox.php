<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Signals;
use Stoker\Internal\Puller;
use Stoker\Internal\WorkerConnection;

/**
 * A worker for frameworks that have a worker loop of their own, such as Laravel's queue:work: the framework takes jobs
 * one at a time and answers them. Programs without such a loop should use Worker, which does more.
 *
 *     $inbox = Inbox::open(['emails']);
 *     while (!$inbox->isClosed()) {
 *         if ($task = $inbox->take(1.0)) {
 *             try {
 *                 $inbox->answer(sendMail($task->json()));
 *             } catch (Throwable $e) {
 *                 $inbox->answer(null, $e);
 *             }
 *         }
 *     }
 *
 * Every task must be answered before the next one is taken. Output of a task goes to stdout. TERM and INT are handled as
 * Worker::run() describes, unless the framework handles them.
 */
final class Inbox
{
    private function __construct(private Puller $puller)
    {
    }

    /**
     * Connects to the server as a worker.
     *
     * A process may have several inboxes, each with its own connection. In a process that Stoker started, the first inbox
     * uses the inherited socket, and all others connect to $socket.
     *
     * @param list<string> $queues       names of queues; "*" is every queue of the pool
     * @param string|null  $socket       address of the server, or several separated by commas, unless the inherited
     *                                   socket is used: see Client::connect(); default: env STOKER_URL, else
     *                                   STOKER_SOCKET; in a process that Stoker started, STOKER_SOCKET first
     * @param string|null  $pool         the pool to join, unless the inherited socket is used; default: env STOKER_POOL
     * @param string|null  $token        token of that pool, if it has one, or over tcp:// and tls:// the token for this
     *                                   machine; default: env STOKER_TOKEN
     * @param string|null  $name         name of this worker in the server's reports; default: the script's name
     * @param bool         $softCancel   throw TaskTimeout in code that runs in interruptible() when the task's time is
     *                                   up; needs ext-pcntl
     * @param float|null   $reconnectFor over tcp:// and tls://: how long to keep trying to reconnect after the connection
     *                                   was lost, in seconds; after that the inbox is closed; null = 60
     * @param float        $keepalive    over tcp:// and tls://: as for Worker::create(); 0 = off
     * @throws ConnectionRefused Stoker did not start this process, and no server can be reached
     * @throws InvalidRequest    an address is invalid
     * @throws StokerException   over tcp:// or tls://: the server rejected this worker
     */
    public static function open(
        array $queues = ['*'],
        ?string $socket = null,
        ?string $pool = null,
        ?string $token = null,
        ?string $name = null,
        bool $softCancel = false,
        ?float $reconnectFor = null,
        float $keepalive = 15.0,
    ): self {
        $hello = [
            'v' => [1],
            'role' => 'worker',
            'name' => $name ?? basename($_SERVER['argv'][0] ?? 'php'),
            'pid' => getmypid(),
            'calls' => [],
            'idempotent' => [],
            'jobs' => $queues,
            'slots' => 1,
            'soft_cancel' => $softCancel,
            'pull' => true,
        ];
        $connection = WorkerConnection::open($hello, $socket, $pool, $token, $reconnectFor, $keepalive);
        $puller = new Puller($connection);
        if ($softCancel) {
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, Signals::softCancelActive(...));
        }
        $puller->loop->open($connection);

        return new self($puller);
    }

    /**
     * Waits for a job and returns it. Stoker assigns a job to this inbox only during this call, so a process that does
     * something else does not hold up a job.
     *
     * @param float $seconds maximum time to wait; 0 = do not wait. When the time is up or a signal arrives, one more
     *                       round trip follows, in which a job may still arrive
     * @return Task|null null if no job arrived within the time, if a signal arrived, and once isClosed() is true
     * @throws \LogicException  the previous task has not been answered
     * @throws StokerException  the server rejected this worker; the message says why
     * @throws Wire\WireError   the server sent bytes that are not a valid frame
     */
    public function take(float $seconds): ?Task
    {
        if (($task = $this->task()) !== null) {
            throw new \LogicException("{$task->name}: answer this task before you take another");
        }

        return $this->puller->next($seconds);
    }

    /**
     * Waits without taking a job. Returns early when a signal arrives and when the inbox is closed. For a worker that
     * must not work now, but must still notice that Stoker shuts it down.
     *
     * @param float $seconds time to wait
     * @throws StokerException see take()
     */
    public function rest(float $seconds): void
    {
        $this->puller->sleep($seconds);
    }

    /**
     * Answers the current task.
     *
     * @param mixed           $result the value that a handler of Worker::onJob() would return
     * @param \Throwable|null $thrown the exception that a handler would throw: Retry, Fail, Returned, or any other for a
     *                                failed attempt. Returned closes the inbox
     * @throws \LogicException no task has been taken
     */
    public function answer(mixed $result = null, ?\Throwable $thrown = null): void
    {
        $this->mustHaveTask();
        $this->puller->end($result, $thrown);
    }

    /**
     * Returns the current task, whose code must not have started, to its queue. This does not count as an
     * attempt, and the inbox stays open.
     *
     * @throws \LogicException no task has been taken
     */
    public function return(): void
    {
        $this->mustHaveTask();
        $this->puller->return();
    }

    /**
     * Runs code that a soft cancel may interrupt, and returns its value.
     *
     * @throws TaskTimeout the task's time is up, and the inbox was opened with $softCancel
     */
    public function interruptible(callable $code): mixed
    {
        $this->puller->loop->running = true;
        try {
            return $code();
        } finally {
            $this->puller->loop->running = false;
        }
    }

    /** The task that was taken and has not been answered; null if there is none. */
    public function task(): ?Task
    {
        return $this->puller->loop->task;
    }

    /** The pool that this inbox has joined; null until Stoker has answered. */
    public function pool(): ?string
    {
        return $this->puller->loop->receiver->pool;
    }

    /**
     * Whether no more jobs will arrive: Stoker has asked this worker to exit, the connection has ended (over tcp:// and
     * tls://, after no attempt to reconnect succeeded within $reconnectFor), or close() was called.
     * Then end the process, or open() another inbox.
     */
    public function isClosed(): bool
    {
        return $this->puller->loop->isOver();
    }

    /**
     * Closes the inbox: it takes no more jobs. The connection is closed too, unless it is the inherited one. Does nothing
     * while a task is unanswered.
     */
    public function close(): void
    {
        if ($this->task() === null) {
            $this->puller->close();
        }
    }

    private function mustHaveTask(): void
    {
        $this->puller->loop->running = false;
        $this->task() !== null || throw new \LogicException('no task has been taken');
    }
}
