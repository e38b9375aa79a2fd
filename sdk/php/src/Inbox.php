<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Channel;
use Stoker\Internal\Loop;
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
    private function __construct(private Loop $loop)
    {
    }

    /**
     * Says HELLO: from here on Stoker sends jobs. One process has one inbox, or runs one Worker.
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
        ];
        [$stream, $hello, $isSpawned] = Socket::ofWorker($hello, $socket, $pool, $token);
        $loop = new Loop(new Channel($stream), [], null);
        $loop->hearSignals($isSpawned);
        if ($softCancel) {
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, $loop->interrupt(...));
        }
        $loop->open($hello);
        register_shutdown_function(static function () use ($loop): void {
            // With a task: last words. Without one: what has been lent goes back, at no cost.
            $loop->task !== null ? $loop->die() : $loop->leave();
        });

        return new self($loop);
    }

    /**
     * The next job.
     *
     * @param float $seconds to wait for it; 0 = only look
     * @return Task|null null when none came in that time, when a signal came, and when isClosed()
     * @throws \LogicException  the one before has not been answered
     * @throws StokerException  the broker does not want this worker; the message says why
     * @throws Wire\WireError   the broker sent what is no frame
     */
    public function take(float $seconds): ?Task
    {
        if ($this->loop->task !== null) {
            throw new \LogicException("{$this->loop->task->name}: answer this task before you take another");
        }

        return $this->loop->next($seconds);
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
        $this->loop->running = false;
        if ($this->loop->task === null) {
            throw new \LogicException('there is no task to be answered');
        }
        if ($this->loop->channel->isMine()) {
            $this->loop->end($result, $thrown);
        }
    }

    /**
     * Runs code that a soft cancel may interrupt.
     *
     * @throws TaskTimeout the task's time is up
     */
    public function interruptible(callable $code): mixed
    {
        $this->loop->running = true;
        try {
            return $code();
        } finally {
            $this->loop->running = false;
        }
    }

    /** The task taken and not answered yet. */
    public function task(): ?Task
    {
        return $this->loop->task;
    }

    /** Whether no more jobs will come: Stoker said to go or is gone, or close() was called. Then end the process. */
    public function isClosed(): bool
    {
        return $this->loop->isOver();
    }

    /** Takes no more; jobs that have been sent here and were not taken go to other workers, at no cost. */
    public function close(): void
    {
        if ($this->loop->task === null) {
            $this->loop->leave();
        }
    }
}
