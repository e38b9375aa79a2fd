<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionLost;
use Stoker\Http\Request;
use Stoker\Internal\Http\Answer;
use Stoker\Returned;
use Stoker\StokerException;
use Stoker\Task;
use Stoker\TaskTimeout;
use Stoker\Wire\Codec;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Key;
use Stoker\Wire\Kind;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

use function hrtime;
use function intdiv;
use function is_string;
use function strlen;

/**
 * Serves tasks: reads a task, runs its handler and answers it, until the worker is asked to exit.
 *
 * run() is the loop of a Worker. An Inbox has no loop of its own; it calls beginNext() and end() through Puller.
 *
 * @internal
 */
final class Loop
{
    /** Maximum size of a job's result that the server keeps, in bytes. */
    private const MAX_RESULT = 65536;
    /** Maximum time of one wait, in seconds, if a signal must end the wait for tasks. */
    private const WAIT_LIMIT = 1.0;
    /** Seconds to wait until the server has read everything and closed the connection. */
    private const CLOSE_TIMEOUT = 1.0;
    /** Seconds within which a server on another machine must confirm the answers of a worker that exits. */
    private const CONFIRM_TIMEOUT = 5.0;

    /** The loop whose task runs in this process; if there are several, the one whose task started last. */
    public static ?self $active = null;
    /** This process decided to exit: stop after the current task. */
    public bool $stopping = false;
    public ?Task $task = null;
    /** A handler is running. A soft cancel may interrupt only then. */
    public bool $running = false;
    /** A CANCEL for the current task has been read. */
    public bool $cancelReceived = false;
    /** The current task's answer in parts; null if its handler has not sent any. */
    private ?Parts $parts = null;
    /** @var (callable(Task): mixed)|null handler of the current task; null if an Inbox runs it */
    private $handler = null;
    /** The server sent GOAWAY or closed the connection: finish the received tasks, then exit. */
    private bool $draining = false;
    /** Maximum length of a frame that this worker may write. Frames from the server may be longer. */
    private int $maxFrame = Frame::MAX;
    /** @var array<int, Frame> received tasks that have not started, by id, in the order of their arrival */
    private array $waiting = [];
    /** @var array<int, int> hrtime() of the arrival of tasks that were read while another one ran, by id */
    private array $arrivals = [];
    /** @var array<int, true> waiting tasks that were cancelled, by id */
    private array $cancelled = [];
    /** @var array<int, true> tasks whose acknowledgement the server has confirmed, by id */
    private array $acked = [];
    /** hrtime() of the last read between tasks. */
    private int $now = 0;
    /** hrtime() at which the current task started. */
    private int $start = 0;
    private FrameReader $reader;
    public readonly Output $output;
    private Guard $guard;
    /** The worker's pool, from WELCOME; null before it has been read. */
    public ?string $pool = null;
    /** A new connection has replaced a lost one, so waiting tasks may have been dropped. */
    private bool $isRenewed = false;
    /** The value of STOKER_WORKER that this worker has set; null = none. */
    private ?string $worker = null;
    /** GOAWAY has been written. */
    private bool $goAwaySent = false;
    /** Last words have been sent. */
    private bool $lastWordsSent = false;
    /** TERM and INT must end the wait for tasks, because the server does not tell this worker to exit. */
    public bool $stopsOnSignal = false;
    /** A request whose handler has ended, and which must be finished when its answer has been written. */
    public ?Request $served = null;
    /** Memory that is freed when the process dies, so that it can send last words after it ran out of memory. */
    private ?string $reserve;

    /**
     * @param array<string, callable(Task): mixed> $calls
     * @param array<string, callable(Task): mixed>|null $jobs handlers by queue; null: accept any job, for an Inbox
     * @param ?Demand $demand set if the server assigns a task to this worker only after a READY
     * @param ?int $tasksLeft number of tasks after which the worker exits; null = no limit
     * @param ?Session $session set if the server is on another machine
     */
    public function __construct(
        public readonly Channel $channel,
        private array $calls,
        private ?array $jobs,
        private ?Demand $demand = null,
        private ?int $tasksLeft = null,
        private ?Session $session = null,
    ) {
        $this->reader = new FrameReader();
        $this->output = new Output($channel);
        $this->guard = new Guard();
        $this->reserve = str_repeat("\0", 32768);
    }

    public function open(WorkerConnection $connection): void
    {
        if ($connection->session !== null) {
            $this->adopt($connection->welcome);
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
            foreach ($this->waiting as $id => $frame) {
                unset($this->waiting[$id]);
                $this->serve($frame);
                if ($this->mustStop()) {
                    // Usually the answer was written together with GOAWAY, but a signal may have arrived after it.
                    $this->finish();

                    return;
                }
                if ($this->session !== null && ($this->channel->broken || $this->isRenewed)) {
                    break; // The server may have given the waiting tasks up.
                }
            }
            $this->isRenewed = false;
            if ($this->waiting === [] || $this->channel->broken) {
                if ($this->draining || ($bytes = $this->wait()) === null) {
                    return;
                }
                $this->now = hrtime(true);
                $this->take($bytes);
                if ($this->stopping) { // A signal arrived between tasks.
                    $this->finish();

                    return;
                }
            }
        } while (true);
    }

    /** Waits for bytes and returns them; "" if none arrived within a time limit, null at the end of the connection. */
    private function wait(): ?string
    {
        if ($this->session !== null) {
            return $this->waitRemote();
        }

        // A signal that arrives just before the wait starts does not interrupt it, so the wait has a time limit.
        return $this->stopsOnSignal ? $this->channel->readWithin(self::WAIT_LIMIT) : $this->channel->read();
    }

    /** wait() of a worker on another machine: if the connection is lost, each call makes one attempt to resume. */
    private function waitRemote(): ?string
    {
        if (!$this->channel->broken && ($bytes = $this->session->read(self::WAIT_LIMIT)) !== null) {
            return $bytes;
        }
        if (!$this->mayReconnect()) {
            return null;
        }
        $this->reconnect(self::WAIT_LIMIT);

        return '';
    }

    private function mayReconnect(): bool
    {
        return $this->session !== null && !$this->draining && !$this->goAwaySent;
    }

    /**
     * Makes a step towards a new connection: waits at most $seconds, or makes an attempt.
     *
     * @throws ConnectionLost  the time for attempts is over
     * @throws StokerException the server rejected this worker
     */
    private function reconnect(float $seconds): void
    {
        $held = array_keys($this->waiting);
        if ($this->task !== null && !$this->channel->muted) {
            $held[] = $this->task->id;
        }
        $wasBusy = $this->channel->writing;
        $this->channel->writing = true; // A soft cancel must not interrupt this.
        try {
            $welcome = $this->session->resume($held, $seconds);
            $welcome === null || $this->adopt($welcome);
        } catch (StokerException $e) {
            $this->draining = true; // There will be no more tasks.
            throw $e;
        } finally {
            $this->channel->writing = $wasBusy;
        }
        $wasBusy || $this->channel->throwInterrupt();
    }

    /**
     * Begins a session with a server on another machine, or resumes it over a new connection.
     *
     * @param array<string, mixed> $welcome the fields of WELCOME
     */
    private function adopt(array $welcome): void
    {
        // Tasks of this session that the server has no answer to. If the session was not resumed, there are none.
        $open = ($welcome['resumed'] ?? false) === true ? array_fill_keys($welcome['open'] ?? [], true) : [];
        $known = $this->waiting + array_fill_keys($this->session->answers->ids(), true);
        if ($this->task !== null && !$this->channel->muted) {
            $known[$this->task->id] = true;
            $this->channel->muted = !isset($open[$this->task->id]);
        }
        $this->demand?->renew(array_diff_key($open, $known) !== []);
        $this->waiting = array_intersect_key($this->waiting, $open);
        $this->cancelled = array_intersect_key($this->cancelled, $open);
        $this->arrivals = array_intersect_key($this->arrivals, $open);
        $this->isRenewed = true;
        $this->reader = new FrameReader();
        $this->onWelcome($welcome);
        if (($answers = $this->session->settle($open)) !== '') {
            $this->channel->write($answers);
            $this->channel->broken || $this->session->onWritten();
        }
        $this->take($this->session->rest, hrtime(true));
    }

    /**
     * Sends GOAWAY before this worker exits. If the server is on another machine, makes sure first that it has received
     * the answers, because nobody could write them again later.
     *
     * @throws ConnectionLost no attempt to reconnect succeeded within $reconnectFor
     */
    private function finish(): void
    {
        while ($this->mayReconnect() && $this->session->hasUnconfirmed()) {
            $this->channel->broken ? $this->reconnect(self::WAIT_LIMIT) : $this->confirm();
        }
        $this->sendGoAway();
    }

    /** Waits until the server confirms the answers, the connection is lost, or the time is up. */
    private function confirm(): void
    {
        $this->session->ping();
        $until = hrtime(true) + (int) (self::CONFIRM_TIMEOUT * 1e9);
        while ($this->session->hasUnconfirmed() && !$this->draining) {
            if (hrtime(true) >= $until) {
                $this->session->confirmAll(); // The server is connected but too busy to answer PING: stop waiting.
            } elseif (($bytes = $this->session->read(max(0.0, ($until - hrtime(true)) / 1e9))) === null) {
                return;
            } else {
                $this->take($bytes, hrtime(true));
            }
        }
    }

    /** Starts the first waiting task and returns it; null if none is waiting. */
    public function beginNext(): ?Task
    {
        if ($this->channel->broken) {
            return null; // After a reconnection it is known whether the server still awaits the waiting tasks.
        }
        foreach ($this->waiting as $id => $frame) {
            unset($this->waiting[$id]);
            if (($task = $this->begin($frame)) !== null) {
                return $task;
            }
        }

        return null;
    }

    /** Waits for frames between tasks, at most $seconds. False if none arrived in time or a signal arrived. */
    public function receive(float $seconds): bool
    {
        if ($this->session !== null) {
            return $this->receiveRemote(max(0.0, $seconds));
        }
        $bytes = $this->channel->readWithin(max(0.0, $seconds));
        if ($bytes === '') {
            return false;
        }
        $this->now = hrtime(true);
        $bytes === null ? $this->draining = true : $this->take($bytes);

        return true;
    }

    /** receive() of a worker on another machine. Also returns true while it tries to reconnect. */
    private function receiveRemote(float $seconds): bool
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        if (!$this->channel->broken && ($bytes = $this->session->read($seconds)) !== null) {
            $arrived = $this->task === null ? null : hrtime(true);
            $this->now = $arrived === null ? hrtime(true) : $this->now;
            $this->take($bytes, $arrived);

            return $bytes !== '';
        }
        try {
            $this->mayReconnect() ? $this->reconnect($seconds) : $this->draining = true;
        } catch (ConnectionLost $e) {
            file_put_contents('php://stderr', "stoker: {$e->getMessage()}\n");
        }

        return $this->draining || !$this->session->wasInterrupted && (!$this->channel->broken || hrtime(true) < $until);
    }

    public function hasTasks(): bool
    {
        return $this->task !== null || $this->waiting !== [];
    }

    /** Answers all received tasks with RETURNED, including the current one, whose code must not have run. */
    public function returnAll(): void
    {
        $names = array_map(static fn (Frame $frame): string => $frame->name, $this->waiting);
        if ($this->task !== null && !$this->channel->muted) {
            $names = [$this->task->id => $this->task->name] + $names;
        }
        foreach ($names as $id => $name) {
            $answer = Frame::answer($id, Status::RETURNED, Codec::RAW, 0, '', '');
            $this->channel->write($answer);
            $this->session?->onAnswer($id, $name, $answer);
        }
        $this->waiting = $this->cancelled = $this->arrivals = [];
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
        return $this->mustStop() || $this->draining && $this->waiting === [];
    }

    /** Stops taking tasks and sends GOAWAY, which returns the unanswered ones. */
    public function leave(): void
    {
        $this->running = false;
        $isOver = $this->draining && $this->waiting === [];
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
     * Keeps TERM and INT from killing this process in the middle of a task. They are sent by programs that stop a
     * whole control group, and by Stoker late in the grace period. Without ext-pcntl this does nothing.
     *
     * @param bool $isSpawned whether Stoker started this process. Then the signals are ignored, because GOAWAY says
     *                        when to exit and waiting tasks may still have to be served
     */
    public function installSignalHandlers(bool $isSpawned): void
    {
        if (!function_exists('pcntl_async_signals')) {
            return;
        }
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            // Not SIG_IGN, because programs that a task starts would inherit it.
            pcntl_signal_get_handler($signal) !== SIG_DFL || pcntl_signal($signal, $this->onSignal(...));
        }
        $this->stopsOnSignal = !$isSpawned;
    }

    /** Handler of TERM and INT. */
    public function onSignal(int $signal): void
    {
        if (!$this->channel->isMine()) {
            // This is a child that a handler forked: the signal must kill it as usual.
            pcntl_signal($signal, SIG_DFL);
            function_exists('posix_kill') ? posix_kill(getmypid(), $signal) : exit(128 + $signal);
        } elseif ($this->stopsOnSignal) {
            $this->stopping = true;
        }
    }

    /** Sends GOAWAY, once. */
    private function sendGoAway(): void
    {
        if (!$this->goAwaySent && !$this->channel->broken) {
            $this->goAwaySent = true;
            $this->channel->write(Frame::of(Type::GOAWAY)->encode());
        }
    }

    /** Handler of SIGUSR1: applies a soft cancel to the active loop of this process. */
    public static function softCancelActive(): void
    {
        self::$active?->softCancel();
    }

    /**
     * Handles a soft cancel (SIGUSR1). PHP throws the exception of a signal handler in the code that was interrupted.
     *
     * @throws TaskTimeout the soft cancel is meant for the current task
     */
    public function softCancel(): void
    {
        if (!$this->running || !$this->channel->isMine() || $this->parts?->isCancelled) {
            return; // In the last case, the handler cleans up already.
        }
        if ($this->channel->writing) {
            $this->channel->interrupted = true; // Deferred until the frame is complete.
        } elseif ($this->isCurrentTaskCancelled()) {
            // If this interrupts the callback of the output buffer, PHP disables the buffer, so it must be opened
            // again.
            $this->output->open = false;
            $this->task?->cancelled();
            throw new TaskTimeout();
        }
    }

    /** Whether a soft cancel is meant for the current task: the server sends CANCEL with its id before the signal. */
    private function isCurrentTaskCancelled(): bool
    {
        do {
            $this->channel->interrupted = false;
            $this->channel->writing = true;
            try {
                while (!$this->cancelReceived && !$this->channel->broken && !in_array($bytes = $this->channel->readWithin(0.0), ['', null], true)) {
                    $this->take($bytes, hrtime(true));
                }
            } finally {
                $this->channel->writing = false;
            }
            // Another signal arrived after the last read: its CANCEL may have arrived since.
        } while ($this->channel->interrupted && !$this->cancelReceived);
        $this->channel->interrupted = false;

        return $this->cancelReceived;
    }

    /**
     * Acknowledges the task and waits until the server has recorded that. Other frames that arrive meanwhile are
     * kept.
     *
     * @throws ConnectionLost  it is unknown whether the server has recorded it
     * @throws \LogicException the task is not the current one, or this is a forked child
     */
    public function acknowledge(Task $task): void
    {
        if ($this->task !== $task || !$this->channel->isMine()) {
            throw new \LogicException("{$task->name}: ack() is only possible while the job runs, in the worker's own process");
        }
        if ($this->channel->muted) {
            throw new ConnectionLost("{$task->name}: the connection to Stoker was lost for too long, and the job was assigned to another worker or failed");
        }
        unset($this->acked[$task->id]);
        $this->channel->event(Kind::ACK, $task->id, '');
        while (!isset($this->acked[$task->id])) {
            // A soft cancel may interrupt only this wait, not the processing of the frames below.
            $bytes = $this->session === null ? $this->channel->readWithin(null) : $this->session->read(null);
            if ($bytes === null || $this->channel->broken) {
                throw new ConnectionLost("{$task->name}: the connection to Stoker was lost; it is unknown whether the job was acknowledged");
            }
            if ($bytes !== '') {
                $this->channel->writing = true;
                $this->take($bytes, hrtime(true));
                $this->channel->writing = false;
                $this->channel->throwInterrupt();
            }
        }
        unset($this->acked[$task->id]);
    }

    /**
     * Waits at most $seconds while a task cannot start its work yet. Returns false as soon as this worker must exit.
     */
    public function sleep(float $seconds): bool
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        while (!$this->mustNotRest() && hrtime(true) < $until) {
            if ($this->session !== null) {
                $this->receiveRemote(max(0.0, ($until - hrtime(true)) / 1e9));
                continue;
            }
            $bytes = $this->channel->readWithin(max(0.0, ($until - hrtime(true)) / 1e9));
            if ($bytes === null) {
                $this->draining = true;
            } elseif ($bytes !== '') {
                $this->take($bytes, hrtime(true));
            }
        }

        $this->cancelReceived && $this->parts?->hasBegun && $this->task?->cancelled();

        return !$this->mustNotRest();
    }

    private function mustNotRest(): bool
    {
        return $this->draining || $this->stopping || $this->channel->muted || $this->cancelReceived && $this->parts?->hasBegun;
    }

    /**
     * The answer in parts of the current task.
     *
     * @throws \LogicException the task is not the current one
     */
    public function parts(Task $task): Parts
    {
        if ($this->task !== $task) {
            throw new \LogicException("{$task->name} is no longer running");
        }
        if ($this->parts === null) {
            // The session of a worker on another machine keeps whole answers only.
            $credit = $this->session === null ? Meta::int($task->meta(Key::CREDIT)) : null;
            $this->parts = new Parts($this, $task, $credit);
        }

        return $this->parts;
    }

    /** Whether a part of the answer to this task has been sent. */
    public function hasBegunAnswer(Task $task): bool
    {
        return $this->task === $task && $this->parts?->hasBegun;
    }

    /** Waits at most $seconds for frames while a task runs, and processes them. False if the connection has ended. */
    public function receiveInTask(float $seconds): bool
    {
        $this->channel->writing = true; // A soft cancel must not interrupt this.
        try {
            $bytes = $this->channel->readWithin($seconds);
            if ($bytes === null) {
                $this->draining = true;
            } elseif ($bytes !== '') {
                $this->take($bytes, hrtime(true));
            }
        } finally {
            $this->channel->writing = false;
        }
        $this->channel->throwInterrupt();

        return $bytes !== null;
    }

    /**
     * Called when the process ends. If a task runs, sends last words for it.
     *
     * @param bool $isDropped the Inbox was destroyed, possibly not because of exit()
     */
    public function sendLastWords(bool $isDropped = false): void
    {
        $this->reserve = null;
        $this->running = false;
        if ($this->task !== null && !$this->lastWordsSent && $this->channel->isMine()) {
            $this->lastWordsSent = true; // This method may be called again, when the owner of the loop is destroyed.
            // Read the last error first, because code that runs from here on may raise another one.
            $words = LastWords::json($this->task->name, $this->handler, $isDropped);
            $this->output->close();
            $this->channel->event(Kind::LAST_WORDS, $this->task->id, $words);
        }
    }

    /**
     * Processes the bytes of one read. All frames are processed before the next task starts, because one may cancel
     * another. Tasks that were received before GOAWAY must still be run.
     *
     * @param int|null $arrived hrtime() of the read; null between tasks, where $now has it
     */
    private function take(string $bytes, ?int $arrived = null): void
    {
        foreach ($this->reader->feed($bytes) as $frame) {
            if ($frame->type === Type::REQ) {
                $this->waiting[$frame->id] = $frame;
                $this->demand?->fulfilled();
                $this->session?->answers->onTask($frame->id);
                if ($arrived !== null) {
                    $this->arrivals[$frame->id] = $arrived;
                }
            } elseif ($frame->type !== Type::CANCEL) {
                $this->control($frame);
            } elseif (isset($this->waiting[$frame->id])) {
                $this->cancelled[$frame->id] = true;
            } elseif ($this->task?->id === $frame->id) {
                $this->cancelReceived = true;
            }
        }
    }

    private function mustStop(): bool
    {
        return $this->stopping || $this->channel->broken && !$this->mayReconnect();
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
        if ($this->cancelled !== [] && isset($this->cancelled[$id])) {
            unset($this->cancelled[$id], $this->arrivals[$id]);
            $this->reject($frame, Status::CANCELLED, 'cancelled before it started');

            return null;
        }
        $isJob = $frame->meta !== '' && Meta::has($frame->meta, Key::JOB_ID);
        $this->handler = $isJob ? $this->jobs[$frame->name] ?? $this->jobs['*'] ?? null : $this->calls[$frame->name] ?? null;
        if ($this->handler === null && !($isJob && $this->jobs === null)) {
            $this->reject($frame, Status::UNIMPLEMENTED, "this worker has no handler for {$frame->name}");

            return null;
        }
        if ($frame->flags & Flag::CRITICAL && ($key = Meta::unknown($frame->meta)) !== null) {
            $this->reject($frame, Status::INVALID_ARGUMENT, "critical frame with unknown metadata key $key");

            return null;
        }
        $arrived = $this->now;
        if ($this->arrivals !== []) {
            $arrived = $this->arrivals[$id] ?? $arrived;
            unset($this->arrivals[$id]);
        }
        $this->cancelReceived = false;
        $this->parts = null;
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
        $micros = intdiv(hrtime(true) - $this->start, 1000) ?: 1;
        $status = Status::OK;
        $codec = Codec::RAW;
        $meta = '';
        if ($this->parts !== null) {
            [$body, $thrown] = $this->parts->finish($body, $thrown);
        }
        $thrown ??= $task->verdict;
        if ($thrown === null && !is_string($body)) {
            if ($body === null && $task->isJob) {
                $body = ''; // A job without a result. For a call, null is a result and is sent as JSON.
            } elseif ($body instanceof Answer) {
                $codec = Codec::HTTP;
                $body = $body->bytes;
            } else {
                try {
                    $codec = Codec::JSON;
                    $body = Codec::json($body);
                } catch (\JsonException $thrown) {
                }
            }
        }
        if ($thrown !== null) {
            [$status, $meta, $body] = Failure::of($thrown, $task->isJob);
            $codec = Codec::RAW;
            // The task is returned by GOAWAY, which returns all unanswered tasks.
            $this->stopping = $this->stopping || $thrown instanceof Returned;
        }
        $this->output->end();
        if ($task->isJob && strlen($body) > self::MAX_RESULT) {
            // Keep the job done without its result: if it failed now, its work would be repeated.
            $task->log(sprintf('The result of %d bytes exceeds the maximum of %d bytes and is dropped.', strlen($body), self::MAX_RESULT));
            [$codec, $body] = [Codec::RAW, ''];
        } elseif (strlen($body) + strlen($meta) + 16 > $this->maxFrame) {
            [$status, $codec, $meta] = [Status::APPLICATION, Codec::RAW, ''];
            $body = sprintf('the answer has %d bytes, the maximum is %d', strlen($body), $this->maxFrame - 16);
        }
        $this->countDown();
        $bytes = match (true) {
            $this->parts?->hasBegun => $this->parts->last($status, min($micros, 0xFFFFFFFF), $meta, $body),
            $status === Status::RETURNED => '',
            default => Frame::answer($task->id, $status, $codec, min($micros, 0xFFFFFFFF), $meta, $body),
        };
        if ($this->session !== null) {
            $this->answerRemote($task, $bytes);
        } else {
            if ($this->stopping) {
                $this->goAwaySent = true;
                $bytes .= Frame::of(Type::GOAWAY)->encode();
            }
            // Written before the next task starts, so that if this process dies, the first unanswered task is the one
            // that ran.
            $this->channel->write($bytes);
        }
        $this->task = $this->parts = null;
    }

    /** @param string $answer the frame; '' = none, because GOAWAY returns the task */
    private function answerRemote(Task $task, string $answer): void
    {
        if ($answer !== '') {
            $this->channel->write($answer);
            $this->session->onAnswer($task->id, $task->name, $answer);
        }
        if ($this->stopping && $this->jobs === null) {
            $this->leave(); // An Inbox has no loop that would do this.
        }
    }

    /** Ends a task that the server has given up because the connection was lost: its answer is not written. */
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
        $answer = Frame::answer($frame->id, $status, Codec::RAW, 0, '', $why);
        $this->channel->write($answer);
        $this->session?->onAnswer($frame->id, $frame->name, $answer);
        $this->countDown();
    }

    /** Counts an answered task, and stops the worker after the last one that it may take. */
    private function countDown(): void
    {
        if ($this->tasksLeft !== null && --$this->tasksLeft <= 0) {
            $this->stopping = true;
        }
    }

    private function control(Frame $frame): void
    {
        switch ($frame->type) {
            case Type::GOAWAY:
                $this->draining = true;
                break;
            case Type::CREDIT:
                $this->task?->id === $frame->id && $this->parts?->grant($frame->ttl);
                break;
            case Type::PING:
                $this->channel->write(Frame::of(Type::PONG, id: $frame->id)->encode());
                break;
            case Type::PONG:
                $this->session?->onPong($frame->id);
                break;
            case Type::EVENT:
                if ($frame->code === Kind::ACK && $this->task?->id === $frame->id) {
                    $this->acked[$frame->id] = true;
                }
                break;
            case Type::READY: // With ttl 0: the withdrawal is in force.
                $this->demand?->confirmed();
                break;
            case Type::WELCOME:
                $this->onWelcome(json_decode($frame->body, true) ?: []);
                break;
            case Type::RES: // With id 0: a worker sends no requests, so a RES can only reject the connection.
                $this->channel->broken = $this->draining = true;
                throw StokerException::fromAnswer($frame, 'Stoker rejected this worker');
        }
    }

    /** @param array<string, mixed> $welcome the fields of WELCOME */
    private function onWelcome(array $welcome): void
    {
        $this->maxFrame = $welcome['max_frame'] ?? Frame::MAX;
        $this->pool = $welcome['pool'] ?? null;
        // Clients in this process and its children send this to the server, so that it knows which worker they run in.
        $worker = getenv('STOKER_WORKER');
        if (isset($welcome['worker']) && ($worker === false || $worker === $this->worker)) {
            $this->worker = $welcome['worker'];
            putenv("STOKER_WORKER={$this->worker}");
            if ($this->session !== null && getenv('STOKER_URL') !== false) {
                putenv('STOKER_SOCKET'); // Otherwise they would take it for the socket of the server that this worker serves.
            }
        }
    }
}
