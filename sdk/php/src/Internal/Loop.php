<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionLost;
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
 * The life of a running worker: read, run, answer, until somebody says to go.
 *
 * run() has the loop; Inbox, for whom others have it, uses beginNext() and end() through Puller.
 *
 * @internal
 */
final class Loop
{
    /** Bytes of a job's result that the broker keeps. */
    private const RESULT = 65536;
    /** Seconds that one who is to hear signals waits in one go. */
    private const LOOK_UP = 1.0;

    /** The loop whose task runs in this process: of several, the one that began last. */
    public static ?self $active = null;
    /** Our own code said to go: leave after the task that runs. */
    public bool $stopping = false;
    public ?Task $task = null;
    /** A handler is running: the one time at which a soft cancel may strike. */
    public bool $running = false;
    /** CANCEL has come for the task that runs. */
    private bool $isStruck = false;
    /** @var (callable(Task): mixed)|null that of the task */
    private $handler = null;
    /** The broker said to go: finish what is here, then leave. */
    private bool $leaving = false;
    /** The longest frame that we may write. The broker's own may be longer: it adds to what it passes on. */
    private int $maxFrame = Frame::MAX;
    /** @var array<int, Frame> tasks that are here and have not begun, by id, in their order */
    private array $waiting = [];
    /** @var array<int, int> hrtime() at which they came, of those that came while another ran */
    private array $arrivals = [];
    /** @var array<int, true> ids of waiting tasks that nobody wants any more */
    private array $cancelled = [];
    /** @var array<int, true> ids of tasks whose acknowledgement is safe */
    private array $acked = [];
    /** hrtime() of the last read between tasks, and at which the task began. */
    private int $now = 0;
    private int $start = 0;
    private FrameReader $reader;
    public readonly Output $output;
    private Guard $guard;
    /** As WELCOME says. */
    public ?string $pool = null;
    /** GOAWAY has been written. */
    private bool $parted = false;
    /** Last words have been said. */
    private bool $isDying = false;
    /** A signal has to end the waiting for tasks. */
    public bool $isWakeable = false;
    /** Given back when the process dies, so that one that ran out of memory can still say so. */
    private ?string $reserve;

    /**
     * @param array<string, callable(Task): mixed> $calls
     * @param array<string, callable(Task): mixed>|null $jobs null: any job, for whoever calls beginNext()
     * @param ?Demand $demand of a worker that is sent a task only when it asks for one
     * @param ?int $left tasks that it takes in its life; null: as many as come
     */
    public function __construct(
        public readonly Channel $channel,
        private array $calls,
        private ?array $jobs,
        private ?Demand $demand = null,
        private ?int $left = null,
    ) {
        $this->reader = new FrameReader();
        $this->output = new Output($channel);
        $this->guard = new Guard();
        $this->reserve = str_repeat("\0", 32768);
    }

    public function open(string $hello): void
    {
        $this->channel->write(Frame::of(Type::HELLO, body: $hello)->encode());
    }

    public function run(string $hello): void
    {
        $outer = self::$active;
        self::$active = $this;
        $this->open($hello);
        $this->output->open();
        try {
            $this->serveAll();
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
                if ($this->isLeaving()) {
                    $this->part(); // The signal may have come after the answer, which says it otherwise.

                    return;
                }
            }
            if ($this->waiting === []) {
                if ($this->leaving || ($bytes = $this->wait()) === null) {
                    return;
                }
                $this->now = hrtime(true);
                $this->take($bytes);
                if ($this->stopping) { // By a signal, between tasks.
                    $this->part();

                    return;
                }
            }
        } while (true);
    }

    /** Waits for bytes; null is the end of the connection. */
    private function wait(): ?string
    {
        // A signal that comes just before the waiting begins does not end it, so that has an end of its own.
        return $this->isWakeable ? $this->channel->readWithin(self::LOOK_UP) : $this->channel->read();
    }

    /** Begins the first of the tasks that are here; null when there is none. */
    public function beginNext(): ?Task
    {
        foreach ($this->waiting as $id => $frame) {
            unset($this->waiting[$id]);
            if (($task = $this->begin($frame)) !== null) {
                return $task;
            }
        }

        return null;
    }

    /** Waits for frames, between tasks. False when none came in so many seconds, or a signal came. */
    public function receive(float $seconds): bool
    {
        $bytes = $this->channel->readWithin(max(0.0, $seconds));
        if ($bytes === '') {
            return false;
        }
        $this->now = hrtime(true);
        $bytes === null ? $this->leaving = true : $this->take($bytes);

        return true;
    }

    public function hasTasks(): bool
    {
        return $this->task !== null || $this->waiting !== [];
    }

    /** Returns the tasks that are here, the one that was begun included: their code has not run. */
    public function returnAll(): void
    {
        $ids = array_keys($this->waiting);
        if ($this->task !== null) {
            array_unshift($ids, $this->task->id);
        }
        foreach ($ids as $id) {
            $this->channel->write(Frame::answer($id, Status::RETURNED, Codec::RAW, 0, '', ''));
        }
        $this->waiting = $this->cancelled = $this->arrivals = [];
        $this->task = null;
    }

    /** Whether the broker sends nothing more. */
    public function isCutOff(): bool
    {
        return $this->leaving || $this->channel->broken;
    }

    /** Whether there will be no more tasks. */
    public function isOver(): bool
    {
        return $this->isLeaving() || $this->leaving && $this->waiting === [];
    }

    /** Takes nothing more; what has not been answered goes back. */
    public function leave(): void
    {
        $this->running = false;
        $isTold = $this->leaving && $this->waiting === [];
        if (!$isTold && $this->channel->isMine()) {
            $this->stopping = true;
            $this->part();
        }
    }

    /**
     * Keeps TERM and INT from ending this process in the middle of a task. They come from outside, as from who stops a
     * whole control group, and late in its grace from Stoker. Without ext-pcntl nothing can be done about them.
     *
     * @param bool $isSpawned by Stoker, whose GOAWAY says when to go: what waits may still have to be served
     */
    public function hearSignals(bool $isSpawned): void
    {
        if (!function_exists('pcntl_async_signals')) {
            return;
        }
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            // A handler, and not SIG_IGN, which the programs that a task starts would inherit.
            pcntl_signal_get_handler($signal) !== SIG_DFL || pcntl_signal($signal, $this->hear(...));
        }
        $this->isWakeable = !$isSpawned;
    }

    public function hear(int $signal): void
    {
        if (!$this->channel->isMine()) {
            // A child that a handler forked: it is to end as any process does.
            pcntl_signal($signal, SIG_DFL);
            function_exists('posix_kill') ? posix_kill(getmypid(), $signal) : exit(128 + $signal);
        } elseif ($this->isWakeable) {
            $this->stopping = true;
        }
    }

    /** Says to the broker, once, that this worker goes. */
    private function part(): void
    {
        if (!$this->parted && !$this->channel->broken) {
            $this->parted = true;
            $this->channel->write(Frame::of(Type::GOAWAY)->encode());
        }
    }

    /** SIGUSR1, in a process that may have several loops. */
    public static function strike(): void
    {
        self::$active?->interrupt();
    }

    /**
     * SIGUSR1, a soft cancel. What a signal handler throws surfaces in the code that it interrupted.
     *
     * @throws TaskTimeout it is meant for the task that runs
     */
    public function interrupt(): void
    {
        if (!$this->running || !$this->channel->isMine()) {
            return;
        }
        if ($this->channel->writing) {
            $this->channel->interrupted = true; // It strikes when the frame is complete.
        } elseif ($this->isMeant()) {
            $this->output->open = false; // It may strike in the buffer's callback, and PHP then disables the buffer.
            throw new TaskTimeout();
        }
    }

    /** Whether the running task is the one to be cancelled: CANCEL, with its id, was on the socket before the signal. */
    private function isMeant(): bool
    {
        do {
            $this->channel->interrupted = false;
            $this->channel->writing = true;
            try {
                while (!$this->isStruck && !in_array($bytes = $this->channel->readWithin(0.0), ['', null], true)) {
                    $this->take($bytes, hrtime(true));
                }
            } finally {
                $this->channel->writing = false;
            }
            // Another signal came behind the last look: the CANCEL that it belongs to may be there only now.
        } while ($this->channel->interrupted && !$this->isStruck);
        $this->channel->interrupted = false;

        return $this->isStruck;
    }

    /**
     * Tells the broker that the task is done, and waits until that is safe. What else comes meanwhile is kept.
     *
     * @throws ConnectionLost
     */
    public function acknowledge(Task $task): void
    {
        if ($this->task !== $task || !$this->channel->isMine()) {
            throw new \LogicException('only a job that runs, in the process that got it, can be acknowledged');
        }
        unset($this->acked[$task->id]);
        $this->channel->event(Kind::ACK, $task->id, '');
        while (!isset($this->acked[$task->id])) {
            // Signals are let in here, and only here.
            $bytes = $this->channel->readWithin(null);
            if ($bytes === null || $this->channel->broken) {
                throw new ConnectionLost("{$task->name}: the connection to Stoker was lost; whether the job is acknowledged nobody knows");
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
     * Waits while a task is held back, for so many seconds at the most. False as soon as this worker is to go.
     */
    public function rest(float $seconds): bool
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        while (!$this->leaving && !$this->stopping && hrtime(true) < $until) {
            $bytes = $this->channel->readWithin(max(0.0, ($until - hrtime(true)) / 1e9));
            if ($bytes === null) {
                $this->leaving = true;
            } elseif ($bytes !== '') {
                $this->take($bytes, hrtime(true));
            }
        }

        return !$this->leaving && !$this->stopping;
    }

    /**
     * The process ends. If a task runs, it is the reason.
     *
     * @param bool $isDropped nobody holds the inbox any more, which may be for another reason
     */
    public function die(bool $isDropped = false): void
    {
        $this->reserve = null;
        $this->running = false;
        if ($this->task !== null && !$this->isDying && $this->channel->isMine()) {
            $this->isDying = true; // What holds the task may be dropped only after this.
            // Taken down first: whatever is done from here on may itself raise what PHP would report as the last error.
            $words = LastWords::json($this->task->name, $this->handler, $isDropped);
            $this->output->close();
            $this->channel->event(Kind::LAST_WORDS, $this->task->id, $words);
        }
    }

    /**
     * Takes what a read brought. All frames at once: one of them may cancel another, and after GOAWAY what is here is
     * still ours.
     *
     * @param int|null $arrived hrtime(), if a task runs meanwhile
     */
    private function take(string $bytes, ?int $arrived = null): void
    {
        foreach ($this->reader->feed($bytes) as $frame) {
            if ($frame->type === Type::REQ) {
                $this->waiting[$frame->id] = $frame;
                $this->demand?->met();
                if ($arrived !== null) {
                    $this->arrivals[$frame->id] = $arrived;
                }
            } elseif ($frame->type !== Type::CANCEL) {
                $this->control($frame);
            } elseif (isset($this->waiting[$frame->id])) {
                $this->cancelled[$frame->id] = true;
            } elseif ($this->task?->id === $frame->id) {
                $this->isStruck = true;
            }
        }
    }

    private function isLeaving(): bool
    {
        return $this->stopping || $this->channel->broken;
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
            exit(0); // A child that the handler forked and did not end. The task is its parent's.
        }
        $this->guard->restore();
        $this->end($body, $thrown);
    }

    /** Makes it the task that runs. Null: there is nothing to run, and that has been answered. */
    private function begin(Frame $frame): ?Task
    {
        $id = $frame->id;
        if ($this->cancelled !== [] && isset($this->cancelled[$id])) {
            unset($this->cancelled[$id], $this->arrivals[$id]);
            $this->refuse($frame, Status::CANCELLED, 'cancelled before it began');

            return null;
        }
        $isJob = $frame->meta !== '' && Meta::has($frame->meta, Key::JOB_ID);
        $this->handler = $isJob ? $this->jobs[$frame->name] ?? $this->jobs['*'] ?? null : $this->calls[$frame->name] ?? null;
        if ($this->handler === null && !($isJob && $this->jobs === null)) {
            $this->refuse($frame, Status::UNIMPLEMENTED, "this worker does not serve {$frame->name}");

            return null;
        }
        if ($frame->flags & Flag::CRITICAL && ($key = Meta::unknown($frame->meta)) !== null) {
            $this->refuse($frame, Status::INVALID_ARGUMENT, "critical, and its metadata $key is unknown here");

            return null;
        }
        $arrived = $this->now;
        if ($this->arrivals !== []) {
            $arrived = $this->arrivals[$id] ?? $arrived;
            unset($this->arrivals[$id]);
        }
        $this->isStruck = false;
        $this->task = $task = new Task($frame, $isJob, $arrived);
        $this->output->task = $id;
        $this->start = hrtime(true);

        return $task;
    }

    /** Answers the task that runs: with a result, or with what it threw. */
    public function end(mixed $body, ?\Throwable $thrown): void
    {
        $task = $this->task;
        $micros = intdiv(hrtime(true) - $this->start, 1000) ?: 1;
        $status = Status::OK;
        $codec = Codec::RAW;
        $meta = '';
        $thrown ??= $task->verdict;
        if ($thrown === null && !is_string($body)) {
            if ($body === null && $task->isJob) {
                $body = ''; // Done, and nothing to keep. A call's null is an answer.
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
            // A worker gives a task back by leaving: GOAWAY returns all that is unanswered.
            $this->stopping = $this->stopping || $thrown instanceof Returned;
        }
        $this->output->end();
        if ($task->isJob && strlen($body) > self::RESULT) {
            // The work is done: to fail it now would be to do it again.
            $task->log(sprintf('The result has %d bytes and is not kept: %d is the most.', strlen($body), self::RESULT));
            [$codec, $body] = [Codec::RAW, ''];
        } elseif (strlen($body) + strlen($meta) + 16 > $this->maxFrame) {
            [$status, $codec, $meta] = [Status::APPLICATION, Codec::RAW, ''];
            $body = sprintf('the answer has %d bytes, and a frame holds %d', strlen($body), $this->maxFrame - 16);
        }
        $this->countDown();
        $bytes = $status === Status::RETURNED
            ? ''
            : Frame::answer($task->id, $status, $codec, min($micros, 0xFFFFFFFF), $meta, $body);
        if ($this->stopping) {
            $this->parted = true;
            $bytes .= Frame::of(Type::GOAWAY)->encode();
        }
        // One write, before the next task begins: so the first unanswered task is the one that ran.
        $this->channel->write($bytes);
        $this->task = null;
    }

    private function refuse(Frame $frame, int $status, string $why): void
    {
        $this->channel->write(Frame::answer($frame->id, $status, Codec::RAW, 0, '', $why));
        $this->countDown();
    }

    /** A task has its answer: it may have been the last that this worker takes. */
    private function countDown(): void
    {
        if ($this->left !== null && --$this->left <= 0) {
            $this->stopping = true;
        }
    }

    private function control(Frame $frame): void
    {
        switch ($frame->type) {
            case Type::GOAWAY:
                $this->leaving = true;
                break;
            case Type::PING:
                $this->channel->write(Frame::of(Type::PONG, id: $frame->id)->encode());
                break;
            case Type::EVENT:
                if ($frame->code === Kind::ACK && $this->task?->id === $frame->id) {
                    $this->acked[$frame->id] = true;
                }
                break;
            case Type::READY: // Of ttl 0: nothing is assigned any more.
                $this->demand?->confirmed();
                break;
            case Type::WELCOME:
                $welcome = json_decode($frame->body, true);
                $this->maxFrame = $welcome['max_frame'] ?? Frame::MAX;
                $this->pool = $welcome['pool'] ?? null;
                // Clients in this process and in its children tell the broker inside which worker they are.
                if (isset($welcome['worker']) && getenv('STOKER_WORKER') === false) {
                    putenv("STOKER_WORKER={$welcome['worker']}");
                }
                break;
            case Type::RES: // Of id 0: a worker asks nothing, so nothing else can be answered to it.
                $this->channel->broken = true;
                throw StokerException::fromAnswer($frame, 'Stoker refused this worker');
        }
    }
}
