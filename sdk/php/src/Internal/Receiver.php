<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\StokerException;
use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Kind;
use Stoker\Wire\Type;

/** Processes the frames that a worker receives. @internal */
final class Receiver
{
    /** Maximum length of a frame that this worker may write. Frames from the server may be longer. */
    public int $maxFrame = Frame::MAX;
    /** The worker's pool, from WELCOME; null before it has been read. */
    public ?string $pool = null;
    private FrameReader $reader;
    /** @var array<int, true> tasks whose acknowledgement the server has confirmed, by id */
    private array $acked = [];
    /** The value of STOKER_WORKER that this worker has set; null = none. */
    private ?string $worker = null;

    public function __construct(private Loop $loop, private ?Demand $demand, private ?Session $session)
    {
        $this->reader = new FrameReader();
    }

    /**
     * Processes the bytes of one read. All frames are processed before the next task starts, because one may cancel
     * another. Tasks that were received before GOAWAY must still be run.
     *
     * @param int|null $arrived hrtime() of the read if a task runs; null between tasks
     */
    public function take(string $bytes, ?int $arrived = null): void
    {
        $loop = $this->loop;
        foreach ($this->reader->feed($bytes) as $frame) {
            if ($frame->type === Type::REQ) {
                $loop->waiting->add($frame, $arrived);
                $this->demand?->fulfilled();
                $this->session?->answers->onTask($frame->id);
            } elseif ($frame->type !== Type::CANCEL) {
                $this->control($frame);
            } elseif (!$loop->waiting->cancel($frame->id) && $loop->task?->id === $frame->id) {
                $loop->cancelReceived = true;
            }
        }
    }

    /** The bytes that follow come from a new connection, whose WELCOME has these fields. @param array<string, mixed> $welcome */
    public function restart(array $welcome): void
    {
        $this->reader = new FrameReader();
        $this->onWelcome($welcome);
    }

    /** Forgets a confirmed acknowledgement. Returns false if it has not been confirmed. */
    public function forgetAck(int $id): bool
    {
        $isAcked = isset($this->acked[$id]);
        unset($this->acked[$id]);

        return $isAcked;
    }

    private function control(Frame $frame): void
    {
        $loop = $this->loop;
        switch ($frame->type) {
            case Type::GOAWAY:
                $loop->draining = true;
                break;
            case Type::CREDIT:
                $loop->task?->id === $frame->id && $loop->link->parts?->grant($frame->ttl);
                break;
            case Type::PING:
                $loop->channel->write(Frame::of(Type::PONG, id: $frame->id)->encode());
                break;
            case Type::PONG:
                $this->session?->onPong($frame->id);
                break;
            case Type::EVENT:
                if ($frame->code === Kind::ACK && $loop->task?->id === $frame->id) {
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
                $loop->channel->broken = $loop->draining = true;
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
