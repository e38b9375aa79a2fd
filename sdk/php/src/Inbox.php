<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Loop;
use Stoker\Internal\Puller;
use Stoker\Internal\Socket;

/**
 * A worker whose loop is somebody else's: takes jobs one by one, and answers them. For frameworks that have a worker
 * of their own, such as Laravel's queue:work. Who has no loop yet uses Worker, which does more.
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
 * Every task taken must be answered before the next is taken. What a task prints goes to stdout. TERM and INT do what
 * they do to a Worker, unless the framework handles them.
 */
final class Inbox
{
    private function __construct(private Puller $puller)
    {
    }

    /**
     * Says HELLO. A process may have several inboxes, each with a connection of its own; one that Stoker started has
     * the inherited socket for the first, and dials for others.
     *
     * @param list<string> $queues     names of queues; "*" is every queue of the pool
     * @param string|null  $socket     where to dial if Stoker did not start this process; default: env STOKER_SOCKET
     * @param string|null  $pool       the pool to join then; default: env STOKER_POOL
     * @param string|null  $token      that pool's token; default: env STOKER_TOKEN
     * @param string|null  $name       who this is, for people; default: the script's name
     * @param bool         $softCancel needs ext-pcntl: code in interruptible() gets TaskTimeout when its time is up
     * @throws ConnectionRefused Stoker did not start this process, and there is none to dial
     */
    public static function open(
        array $queues = ['*'],
        ?string $socket = null,
        ?string $pool = null,
        ?string $token = null,
        ?string $name = null,
        bool $softCancel = false,
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
        [$stream, $hello, $isSpawned] = Socket::ofWorker($hello, $socket, $pool, $token);
        $puller = new Puller($stream, $isSpawned);
        if ($softCancel) {
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, Loop::strike(...));
        }
        $puller->loop->open($hello);

        return new self($puller);
    }

    /**
     * The next job. Stoker assigns one to this process only while it waits here, so that a process which does something
     * else, or nothing, holds no job.
     *
     * @param float $seconds to wait for it; 0 = only look. Then, or at a signal, one round trip is added, in which a
     *                       job may still come
     * @return Task|null null when none came in that time, when a signal came, and when isClosed()
     * @throws \LogicException  the one before has not been answered
     * @throws StokerException  the broker does not want this worker; the message says why
     * @throws Wire\WireError   the broker sent what is no frame
     */
    public function take(float $seconds): ?Task
    {
        if (($task = $this->task()) !== null) {
            throw new \LogicException("{$task->name}: answer this task before you take another");
        }

        return $this->puller->next($seconds);
    }

    /**
     * Waits without taking a job, and returns early at a signal and when isClosed(): for a worker that is not to work
     * now, and has to notice that it is to go.
     *
     * @throws StokerException see take()
     */
    public function rest(float $seconds): void
    {
        $this->puller->rest($seconds);
    }

    /**
     * Answers the task that was taken.
     *
     * @param mixed           $result what a handler of Worker::onJob() would have returned
     * @param \Throwable|null $thrown what it would have thrown: Retry, Fail, Returned, or any exception for a failed
     *                                attempt. After Returned isClosed() is true
     * @throws \LogicException nothing is to be answered
     */
    public function answer(mixed $result = null, ?\Throwable $thrown = null): void
    {
        $this->mustHaveTask();
        $this->puller->end($result, $thrown);
    }

    /**
     * Returns the task that was taken, and whose code has not begun, to its queue: that costs it no attempt, and this
     * inbox goes on.
     *
     * @throws \LogicException there is none
     */
    public function return(): void
    {
        $this->mustHaveTask();
        $this->puller->return();
    }

    /**
     * Runs code that a soft cancel may interrupt.
     *
     * @throws TaskTimeout the task's time is up
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

    /** The task taken and not answered yet. */
    public function task(): ?Task
    {
        return $this->puller->loop->task;
    }

    /** The pool that it has joined; null as long as Stoker has not answered. */
    public function pool(): ?string
    {
        return $this->puller->loop->pool;
    }

    /**
     * Whether no more jobs will come: Stoker said to go or is gone, or close() was called. Then end the process, or
     * open() another inbox.
     */
    public function isClosed(): bool
    {
        return $this->puller->loop->isOver();
    }

    /**
     * Takes no more, and ends the connection unless Stoker started this process. Does nothing before the task that was
     * taken is answered.
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
        $this->task() !== null || throw new \LogicException('there is no task to be answered');
    }
}
