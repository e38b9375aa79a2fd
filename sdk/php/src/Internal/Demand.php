<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Frame;
use Stoker\Wire\Type;

/** Tracks the READY frames of a worker that requests each task (`pull`): docs/reference/protocol.md. @internal */
final class Demand
{
    /** A task was requested and has not arrived. */
    private bool $isOpen = false;
    /** Number of withdrawals that the server has not confirmed. Until it has, a task may still arrive. */
    private int $unconfirmed = 0;

    public function __construct(private Channel $channel)
    {
    }

    /** Requests one task, unless one has been requested already. */
    public function request(): void
    {
        if (!$this->isOpen) {
            $this->isOpen = true;
            $this->channel->write(Frame::of(Type::READY, ttl: 1)->encode());
        }
    }

    /**
     * Withdraws the request. The withdrawal is in force when isSettled() is true.
     *
     * @param bool $hasTask a task has arrived and is to be returned; the server accepts that only after a withdrawal
     */
    public function withdraw(bool $hasTask = false): void
    {
        if ($this->isOpen || $hasTask) {
            $this->isOpen = false;
            $this->unconfirmed++;
            $this->channel->write(Frame::of(Type::READY)->encode());
        }
    }

    /** Whether no task can arrive until the next request. */
    public function isSettled(): bool
    {
        return !$this->isOpen && $this->unconfirmed === 0;
    }

    /**
     * A new connection has replaced the old one. The server has forgotten requests and withdrawals.
     *
     * @param bool $isTaskComing the server is about to repeat a task that was lost with the old connection, which uses up
     *                           the request that was made for it
     */
    public function renew(bool $isTaskComing): void
    {
        $this->isOpen = $isTaskComing;
        $this->unconfirmed = 0;
    }

    /** A task has arrived. */
    public function fulfilled(): void
    {
        $this->isOpen = false;
    }

    /** The server has confirmed a withdrawal. */
    public function confirmed(): void
    {
        $this->unconfirmed = max(0, $this->unconfirmed - 1);
    }
}
