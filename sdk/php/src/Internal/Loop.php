<?php

declare(strict_types=1);

namespace Stoker\Internal;

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

/** The life of a running worker: read, run, answer, until somebody says to go. @internal */
final class Loop
{
    public static ?self $active = null;

    /** Our own code said to go: leave after the task that runs. */
    public bool $stopping = false;

    public ?Task $task = null;

    /** @var callable(Task): mixed that of the task */
    private $handler;

    /** The broker said to go: finish what is here, then leave. */
    private bool $leaving = false;

    /** A handler is running: the one time at which a soft cancel may strike. */
    private bool $running = false;

    /** The longest frame that we may write. The broker's own may be longer: it adds to what it passes on. */
    private int $maxFrame = Frame::MAX;

    private FrameReader $reader;
    public readonly Output $output;
    private Guard $guard;

    /** Given back when the process dies, so that one that ran out of memory can still say so. */
    private ?string $reserve;

    /**
     * @param array<string, callable(Task): mixed> $calls
     * @param array<string, callable(Task): mixed> $jobs
     */
    public function __construct(public readonly Channel $channel, private array $calls, private array $jobs)
    {
        $this->reader = new FrameReader();
        $this->output = new Output($channel);
        $this->guard = new Guard();
        $this->reserve = str_repeat("\0", 32768);
    }

    public function run(string $hello): void
    {
        self::$active = $this;
        $this->channel->write(Frame::of(Type::HELLO, body: $hello)->encode());
        $this->output->open();
        try {
            while (!$this->leaving && ($bytes = $this->channel->read()) !== null) {
                if (!$this->work($bytes)) {
                    break;
                }
            }
        } finally {
            $this->output->close();
            self::$active = null;
        }
    }

    /** SIGUSR1, a soft cancel. What a signal handler throws surfaces in the code that it interrupted. */
    public function interrupt(): void
    {
        if ($this->running && $this->channel->isMine()) {
            $this->output->open = false; // It may strike in the buffer's callback, and PHP then disables the buffer.
            $this->channel->writing ? $this->channel->interrupted = true : throw new TaskTimeout();
        }
    }

    /** The process ends. If a task runs, it is the reason. */
    public function die(): void
    {
        $this->reserve = null;
        $this->running = false;
        if ($this->task !== null && $this->channel->isMine()) {
            // Taken down first: whatever is done from here on may itself raise what PHP would report as the last error.
            $words = LastWords::json($this->task->name, $this->handler);
            $this->output->close();
            $this->channel->event(Kind::LAST_WORDS, $this->task->id, $words);
        }
    }

    /** Runs what a read brought. False: leave. */
    private function work(string $bytes): bool
    {
        $now = hrtime(true);
        // All frames first: one of them may cancel another, and after GOAWAY what is here is still ours.
        $tasks = $cancelled = [];
        foreach ($this->reader->feed($bytes) as $frame) {
            if ($frame->type === Type::REQ) {
                $tasks[$frame->id] = $frame;
            } elseif ($frame->type !== Type::CANCEL) {
                $this->control($frame);
            } elseif (isset($tasks[$frame->id])) {
                $cancelled[$frame->id] = true;
            }
        }
        foreach ($tasks as $id => $frame) {
            isset($cancelled[$id])
                ? $this->refuse($frame, Status::CANCELLED, 'cancelled before it began')
                : $this->serve($frame, $now);
            if ($this->stopping || $this->channel->broken) {
                return false;
            }
        }

        return true;
    }

    private function serve(Frame $frame, int $arrived): void
    {
        $isJob = $frame->meta !== '' && Meta::has($frame->meta, Key::JOB_ID);
        $handler = $isJob ? $this->jobs[$frame->name] ?? $this->jobs['*'] ?? null : $this->calls[$frame->name] ?? null;
        if ($handler === null) {
            $this->refuse($frame, Status::UNIMPLEMENTED, "this worker does not serve {$frame->name}");

            return;
        }
        if ($frame->flags & Flag::CRITICAL && ($key = Meta::unknown($frame->meta)) !== null) {
            $this->refuse($frame, Status::INVALID_ARGUMENT, "critical, and its metadata $key is unknown here");

            return;
        }
        $this->handler = $handler;
        $this->task = $task = new Task($frame, $isJob, $arrived);
        $this->output->task = $frame->id;
        $status = Status::OK;
        $codec = Codec::RAW;
        $meta = '';
        $start = hrtime(true);
        try {
            $this->running = true;
            $body = $handler($task);
            $this->running = false;
            if ($task->verdict !== null) {
                throw $task->verdict;
            }
            if ($body === null && $isJob) {
                $body = ''; // Done, and nothing to keep. A call's null is an answer.
            } elseif (!is_string($body)) {
                $codec = Codec::JSON;
                $body = Codec::json($body);
            }
        } catch (\Throwable $e) {
            $this->running = false;
            [$status, $meta, $body] = Failure::of($e, $isJob);
            $codec = Codec::RAW;
            // A worker gives a task back by leaving: GOAWAY returns all that is unanswered.
            $this->stopping = $this->stopping || $e instanceof Returned;
        }
        $micros = intdiv(hrtime(true) - $start, 1000) ?: 1;
        if (!$this->channel->isMine()) {
            exit(0); // A child that the handler forked and did not end. The task is its parent's.
        }
        $this->guard->restore();
        $this->output->end();
        if (strlen($body) + strlen($meta) + 16 > $this->maxFrame) {
            [$status, $codec, $meta] = [Status::APPLICATION, Codec::RAW, ''];
            $body = sprintf('the answer has %d bytes, and a frame holds %d', strlen($body), $this->maxFrame - 16);
        }
        $bytes = $status === Status::RETURNED
            ? ''
            : Frame::answer($frame->id, $status, $codec, min($micros, 0xFFFFFFFF), $meta, $body);
        if ($this->stopping) {
            $bytes .= Frame::of(Type::GOAWAY)->encode();
        }
        // One write, before the next task begins: so the first unanswered task is the one that ran.
        $this->channel->write($bytes);
        $this->task = null;
    }

    private function refuse(Frame $frame, int $status, string $why): void
    {
        $this->channel->write(Frame::answer($frame->id, $status, Codec::RAW, 0, '', $why));
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
            case Type::WELCOME:
                $welcome = json_decode($frame->body, true);
                $this->maxFrame = $welcome['max_frame'] ?? Frame::MAX;
                // Clients in this process and in its children tell the broker inside which worker they are.
                if (isset($welcome['worker']) && getenv('STOKER_WORKER') === false) {
                    putenv("STOKER_WORKER={$welcome['worker']}");
                }
                break;
            case Type::RES: // Of id 0: a worker asks nothing, so nothing else can be answered to it.
                throw StokerException::fromAnswer($frame, 'Stoker refused this worker');
        }
    }
}
