<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionLost;
use Stoker\ExitCalled;
use Stoker\Http\Request;
use Stoker\Internal\Http\Handler;
use Stoker\Returned;
use Stoker\StokerException;
use Stoker\Task;
use Stoker\Wire\Codec;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Kind;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

use function hrtime;
use function intdiv;

/**
 * Serves tasks: reads a task, runs its handler and answers it, until the worker is asked to exit.
 *
 * run() is the loop of a Worker. An Inbox has no loop of its own; it calls beginNext() and end() through Puller.
 *
 * @internal
 */
final class Loop
{
    /** Maximum time of one wait, in seconds, if a signal must end the wait for tasks. */
    private const WAIT_LIMIT = 1.0;
    /** Seconds to wait until the server has read everything and closed the connection. */
    private const CLOSE_TIMEOUT = 1.0;

    /** The loop whose task runs in this process; if there are several, the one whose task started last. */
    public static ?self $active = null;
    /** This process decided to exit: stop after the current task. */
    public bool $stopping = false;
    public ?Task $task = null;
    /** A handler is running. A soft cancel may interrupt only then. */
    public bool $running = false;
    /** A CANCEL for the current task has been read. */
    public bool $cancelReceived = false;
    /** The server sent GOAWAY or closed the connection: finish the received tasks, then exit. */
    public bool $draining = false;
    /** GOAWAY has been written. */
    public bool $goAwaySent = false;
    /** A request whose handler has ended, and which must be finished when its answer has been written. */
    public ?Request $served = null;
    public readonly WaitingTasks $waiting;
    public readonly Output $output;
    public readonly Receiver $receiver;
    public readonly Signals $signals;
    public readonly TaskLink $link;
    private ?Resumption $resumption;
    private Guard $guard;
    /** @var (callable(Task): mixed)|null handler of the current task; null if an Inbox runs it */
    private $handler = null;
    /** hrtime() of the last read between tasks. */
    private int $now = 0;
    /** hrtime() at which the current task started. */
    private int $start = 0;
    /** The death of this process has been reported. */
    private bool $hasSpoken = false;
    /** Memory that is freed when the process dies, so that it can send last words after it ran out of memory. */
    private ?string $reserve;

    /**
     * @param array<string, callable(Task): mixed> $calls
     * @param array<string, callable(Task): mixed>|null $jobs handlers by queue; null: accept any job, for an Inbox
     * @param ?Demand $demand set if the server assigns a task to this worker only after a READY
     * @param ?int $tasksLeft number of tasks after which the worker exits; null = no limit
     * @param ?Session $session set if the server is on another machine
     * @param ?Handler $requests answers requests to sites that have no handler of their own
     */
    public function __construct(
        public readonly Channel $channel,
        private array $calls,
        private ?array $jobs,
        ?Demand $demand = null,
        private ?int $tasksLeft = null,
        private ?Session $session = null,
        private ?Handler $requests = null,
    ) {
        $this->waiting = new WaitingTasks();
        $this->output = new Output($channel);
        $this->receiver = new Receiver($this, $demand, $session);
        $this->signals = new Signals($this);
        $this->link = new TaskLink($this, $session);
        $this->resumption = $session === null ? null : new Resumption($this, $session, $demand);
        $this->guard = new Guard();
        $this->reserve = str_repeat("\0", 32768);
    }

    public function open(WorkerConnection $connection): void
    {
        if ($connection->session !== null) {
            $this->resumption->adopt($connection->welcome);
        } else {
            $this->channel->write(Frame::of(Type::HELLO, body: $connection->hello)->encode());
        }
    }

    /** Whether the server may be on another machine. */
    public function isRemote(): bool
    {
        return $this->session !== null;
    }

    /** @throws ConnectionLost the server on another machine could not be reached again */
    public function run(WorkerConnection $connection): void
    {
        $outer = self::$active;
        self::$active = $this;
        $this->open($connection);
        $this->output->open();
        try {
            $this->serveAll();
            // Over TCP, an answer can be lost if this process exits before the server has read it.
            $this->session === null || $this->channel->linger(self::CLOSE_TIMEOUT);
        } finally {
            $this->output->close();
            self::$active = $outer;
        }
    }

    private function serveAll(): void
    {
        do {
            // Over a connection that is lost, the server may have given up on the waiting tasks.
            while (!$this->channel->broken && ($frame = $this->waiting->shift()) !== null) {
                $this->serve($frame);
                if ($this->mustStop()) {
                    // Usually the answer was written together with GOAWAY, but a signal may have arrived after it.
                    $this->finish();

                    return;
                }
            }
            if ($this->draining || ($bytes = $this->wait()) === null) {
                return;
            }
            $this->take($bytes);
            if ($this->stopping) { // A signal arrived between tasks.
                $this->finish();

                return;
            }
        } while (true);
    }

    /** Waits for bytes and returns them; "" if none arrived within a time limit, null at the end of the connection. */
    private function wait(): ?string
    {
        if ($this->resumption !== null) {
            return $this->resumption->wait();
        }

        // A signal that arrives just before the wait starts does not interrupt it, so the wait has a time limit.
        return $this->signals->stopLoop ? $this->channel->readWithin(self::WAIT_LIMIT) : $this->channel->read();
    }

    /** Processes the bytes of one read. */
    public function take(string $bytes): void
    {
        $now = hrtime(true);
        if ($this->task === null) {
            $this->now = $now;
            $this->receiver->take($bytes);
        } else {
            $this->receiver->take($bytes, $now);
        }
    }

    /**
     * Sends GOAWAY before this worker exits.
     *
     * @throws ConnectionLost the server on another machine could not be reached again, and may not have all answers
     */
    private function finish(): void
    {
        $this->resumption?->confirmAnswers();
        if (!$this->goAwaySent && !$this->channel->broken) {
            $this->goAwaySent = true;
            $this->channel->write(Frame::of(Type::GOAWAY)->encode());
        }
    }

    /** Starts the first waiting task and returns it; null if none is waiting. */
    public function beginNext(): ?Task
    {
        if ($this->channel->broken) {
            return null; // After a reconnection it is known whether the server still awaits the waiting tasks.
        }
        while (($frame = $this->waiting->shift()) !== null) {
            if (($task = $this->begin($frame)) !== null) {
                return $task;
            }
        }

        return null;
    }

    /** Waits for frames between tasks, at most $seconds. False if none arrived in time or a signal arrived. */
    public function receive(float $seconds): bool
    {
        if ($this->resumption !== null) {
            return $this->resumption->receive(max(0.0, $seconds));
        }
        $bytes = $this->channel->readWithin(max(0.0, $seconds));
        if ($bytes === '') {
            return false;
        }
        $bytes === null ? $this->draining = true : $this->take($bytes);

        return true;
    }

    public function hasTasks(): bool
    {
        return $this->task !== null || !$this->waiting->isEmpty();
    }

    /** Answers all received tasks with RETURNED, including the current one, whose code must not have run. */
    public function returnAll(): void
    {
        $names = $this->waiting->names();
        if ($this->task !== null && !$this->channel->muted) {
            $names = [$this->task->id => $this->task->name] + $names;
        }
        foreach ($names as $id => $name) {
            $this->write($id, $name, Frame::answer($id, Status::RETURNED, Codec::RAW, 0, '', ''));
        }
        $this->waiting->keepOnly([]);
        $this->task = null;
        $this->channel->muted = false;
    }

    /** Whether the server has sent GOAWAY or the connection has ended. */
    public function isCutOff(): bool
    {
        return $this->draining || $this->channel->broken;
    }

    /** Whether there will be no more tasks. */
    public function isOver(): bool
    {
        return $this->mustStop() || $this->draining && $this->waiting->isEmpty();
    }

    /** Stops taking tasks and sends GOAWAY, which returns the unanswered ones. */
    public function leave(): void
    {
        $this->running = false;
        $isOver = $this->draining && $this->waiting->isEmpty();
        if (!$isOver && $this->channel->isMine()) {
            $this->stopping = true;
            try {
                $this->finish();
            } catch (StokerException $e) { // Thrown for a server on another machine only.
                file_put_contents('php://stderr', "stoker: {$e->getMessage()}\n");
            }
        }
    }

    /**
     * Called when the process ends. If a task runs, it has failed if its handler called exit(). In other cases the server
     * gets last words, which explain the death of the process.
     *
     * @param bool $isDropped the Inbox was destroyed, possibly not because of exit()
     */
    public function onShutdown(bool $isDropped = false): void
    {
        $this->reserve = null;
        $this->running = false;
        if ($this->task === null || $this->hasSpoken || !$this->channel->isMine()) {
            return;
        }
        $this->hasSpoken = true; // This method may be called again, when the owner of the loop is destroyed.
        // Read the last error first, because code that runs from here on may raise another one.
        $fatal = LastWords::ofFatalError();
        if ($fatal === null && $this->handler !== null) {
            $this->endWithExit($this->task, $this->handler);
        } else {
            $words = $fatal ?? LastWords::ofExit($this->task->name, $isDropped);
            $this->output->close();
            $this->channel->event(Kind::LAST_WORDS, $this->task->id, $words);
        }
    }

    /** Fails the current task, whose handler has called exit(), before this process ends. */
    private function endWithExit(Task $task, callable $handler): void
    {
        $this->stopping = true;
        $this->end(null, ExitCalled::in($task->name, $handler));
        $this->output->close();
        $this->leave();
        $this->session === null || $this->channel->linger(self::CLOSE_TIMEOUT);
    }

    private function mustStop(): bool
    {
        return $this->stopping || $this->channel->broken && !$this->resumption?->isPossible();
    }

    private function serve(Frame $frame): void
    {
        $task = $this->begin($frame);
        if ($task === null) {
            return;
        }
        $body = $thrown = null;
        try {
            $this->running = true;
            $body = ($this->handler)($task);
            $this->running = false;
        } catch (\Throwable $thrown) {
            $this->running = false;
        }
        if (!$this->channel->isMine()) {
            exit(0); // This is a child that the handler forked and did not end. The task belongs to the parent.
        }
        $this->guard->restore();
        $this->end($body, $thrown);
        if ($this->served !== null) {
            $this->finishRequest();
        }
    }

    /** Does what a request's handler has left for the time after its answer. */
    private function finishRequest(): void
    {
        $request = $this->served;
        $this->served = null;
        $request->finish();
        if (!$this->channel->isMine()) {
            exit(0); // A child that this has forked.
        }
        $this->guard->restore();
        $this->output->end();
    }

    /** Makes a received task the current one. Returns null if it was cancelled or is invalid, and has been answered. */
    private function begin(Frame $frame): ?Task
    {
        $id = $frame->id;
        if ($this->waiting->hasNotes && $this->waiting->wasCancelled($id)) {
            $this->reject($frame, Status::CANCELLED, 'cancelled before it started');

            return null;
        }
        $isJob = $frame->meta !== '' && Meta::has($frame->meta, Key::JOB_ID);
        $this->handler = match (true) {
            $isJob => $this->jobs[$frame->name] ?? $this->jobs['*'] ?? null,
            isset($this->calls[$frame->name]) => $this->calls[$frame->name],
            // A reload may give the pool a site that it did not have when this process started.
            Handler::isSiteMethod($frame->name) => $this->requests,
            default => null,
        };
        if ($this->handler === null && !($isJob && $this->jobs === null)) {
            $this->reject($frame, Status::UNIMPLEMENTED, "this worker has no handler for {$frame->name}");

            return null;
        }
        if ($frame->flags & Flag::CRITICAL && ($key = Meta::unknown($frame->meta)) !== null) {
            $this->reject($frame, Status::INVALID_ARGUMENT, "critical frame with unknown metadata key $key");

            return null;
        }
        $this->cancelReceived = false;
        $this->link->parts = null;
        $arrived = $this->waiting->hasNotes ? $this->waiting->arrival($id, $this->now) : $this->now;
        $this->task = $task = new Task($frame, $isJob, $arrived);
        $this->output->task = $id;
        $this->start = hrtime(true);

        return $task;
    }

    /** Answers the current task with its result, or with the exception that it threw. */
    public function end(mixed $body, ?\Throwable $thrown): void
    {
        $task = $this->task;
        if ($this->channel->muted) {
            $this->abandon($task);

            return;
        }
        $micros = min(intdiv(hrtime(true) - $this->start, 1000) ?: 1, 0xFFFFFFFF);
        $parts = $this->link->parts;
        if ($parts !== null) {
            [$body, $thrown] = $parts->finish($body, $thrown);
        }
        $thrown ??= $task->verdict;
        $outcome = Outcome::of($body, $thrown, $task->isJob);
        // The task is returned by GOAWAY, which returns all unanswered tasks.
        $this->stopping = $this->stopping || $thrown instanceof Returned;
        $this->output->end();
        $outcome->limit($task, $this->receiver->maxFrame);
        $this->countDown();
        $this->answer($task, match (true) {
            $parts?->hasBegun => $parts->last($outcome->status, $micros, $outcome->meta, $outcome->body),
            $outcome->status === Status::RETURNED => '',
            default => Frame::answer($task->id, $outcome->status, $outcome->codec, $micros, $outcome->meta, $outcome->body),
        });
        $this->task = $this->link->parts = null;
    }

    /**
     * Writes the answer to the current task before the next one starts: then, if this process dies, the first unanswered
     * task is the one that ran.
     *
     * @param string $frame '' = none, because GOAWAY returns the task
     */
    private function answer(Task $task, string $frame): void
    {
        if ($this->session === null) {
            if ($this->stopping) {
                $this->goAwaySent = true;
                $frame .= Frame::of(Type::GOAWAY)->encode();
            }
            $this->channel->write($frame);

            return;
        }
        $frame === '' || $this->write($task->id, $task->name, $frame);
        if ($this->stopping && $this->jobs === null) {
            $this->leave(); // An Inbox has no loop that would do this.
        }
    }

    /** Writes an answer, and keeps it if it may be lost with the connection. */
    private function write(int $id, string $name, string $frame): void
    {
        $this->channel->write($frame);
        $this->session?->onAnswer($id, $name, $frame);
    }

    /** Ends a task that the server has given up on because the connection was lost: its answer is not written. */
    private function abandon(Task $task): void
    {
        $this->output->end();
        $this->channel->muted = false;
        $this->task = null;
        $this->countDown();
        Session::reportLate($task->id, $task->name);
    }

    private function reject(Frame $frame, int $status, string $why): void
    {
        $this->write($frame->id, $frame->name, Frame::answer($frame->id, $status, Codec::RAW, 0, '', $why));
        $this->countDown();
    }

    /** Counts an answered task, and stops the worker after the last one that it may take. */
    private function countDown(): void
    {
        if ($this->tasksLeft !== null && --$this->tasksLeft <= 0) {
            $this->stopping = true;
        }
    }
}
