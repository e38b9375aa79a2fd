<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionLost;
use Stoker\Task;
use Stoker\TaskTimeout;
use Stoker\Wire\Key;
use Stoker\Wire\Kind;
use Stoker\Wire\Meta;

use function hrtime;

/** What the handler of the current task does on the worker's connection, besides its answer. @internal */
final class TaskLink
{
    /** The current task's answer in parts; null if its handler has not sent any. */
    public ?Parts $parts = null;

    public function __construct(private Loop $loop, private ?Session $session)
    {
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
        $channel = $this->loop->channel;
        if ($this->loop->task !== $task || !$channel->isMine()) {
            throw new \LogicException("{$task->name}: ack() is only possible while the job runs, in the worker's own process");
        }
        if ($channel->muted) {
            throw new ConnectionLost("{$task->name}: the connection to Stoker was lost for too long, and the job was assigned to another worker or failed");
        }
        $this->loop->receiver->forgetAck($task->id);
        $channel->event(Kind::ACK, $task->id, '');
        while (!$this->loop->receiver->forgetAck($task->id)) {
            // A soft cancel may interrupt only this wait, not the processing of the frames below.
            $bytes = $this->session === null ? $channel->readWithin(null) : $this->session->read(null);
            if ($bytes === null || $channel->broken) {
                throw new ConnectionLost("{$task->name}: the connection to Stoker was lost; it is unknown whether the job was acknowledged");
            }
            if ($bytes !== '') {
                $channel->writing = true;
                $this->loop->take($bytes);
                $channel->writing = false;
                $channel->throwInterrupt();
            }
        }
    }

    /**
     * Waits at most $seconds while a task cannot start its work yet. Returns false as soon as this worker must exit, or the
     * caller of an answer in parts has gone.
     */
    public function sleep(float $seconds): bool
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        while (!$this->mustNotRest() && hrtime(true) < $until) {
            $this->loop->receive(($until - hrtime(true)) / 1e9);
        }
        $this->hasLostCaller() && $this->loop->task?->cancelled();

        return !$this->mustNotRest();
    }

    private function mustNotRest(): bool
    {
        return $this->loop->draining || $this->loop->stopping || $this->loop->channel->muted || $this->hasLostCaller();
    }

    private function hasLostCaller(): bool
    {
        return $this->loop->cancelReceived && $this->parts?->hasBegun === true;
    }

    /**
     * The answer in parts of the current task.
     *
     * @throws \LogicException the task is not the current one
     */
    public function parts(Task $task): Parts
    {
        if ($this->loop->task !== $task) {
            throw new \LogicException("{$task->name} is no longer running");
        }
        if ($this->parts === null) {
            // The session of a worker on another machine keeps whole answers only.
            $credit = $this->session === null ? Meta::int($task->meta(Key::CREDIT)) : null;
            $this->parts = new Parts($this->loop, $task, $credit);
        }

        return $this->parts;
    }

    /** Whether a part of the answer to this task has been sent. */
    public function hasBegunAnswer(Task $task): bool
    {
        return $this->loop->task === $task && $this->parts?->hasBegun === true;
    }

    /**
     * Waits at most $seconds for frames while a task runs, and processes them. False if the connection has ended.
     *
     * @throws TaskTimeout a soft cancel has arrived while this waited
     */
    public function receive(float $seconds): bool
    {
        $channel = $this->loop->channel;
        $channel->writing = true; // A soft cancel must not interrupt this.
        try {
            $bytes = $channel->readWithin($seconds);
            if ($bytes === null) {
                $this->loop->draining = true;
            } elseif ($bytes !== '') {
                $this->loop->take($bytes);
            }
        } finally {
            $channel->writing = false;
        }
        $channel->throwInterrupt();

        return $bytes !== null;
    }
}
