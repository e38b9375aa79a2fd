<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Frame;
use Stoker\Wire\Type;

/** What a worker has asked for with READY: docs/reference/protocol.md, section 8. @internal */
final class Demand
{
    /** One task has been asked for and has not come. */
    private bool $isOpen = false;
    /** Withdrawals that the broker has not confirmed: a task may still come. */
    private int $unconfirmed = 0;

    public function __construct(private Channel $channel)
    {
    }

    /** Asks for one task, unless that has been done. */
    public function ask(): void
    {
        if (!$this->isOpen) {
            $this->isOpen = true;
            $this->channel->write(Frame::of(Type::READY, ttl: 1)->encode());
        }
    }

    /**
     * Asks for none any more. Holds as soon as isSettled().
     *
     * @param bool $hasTask a task is here that is to be returned: only after this the broker takes it back
     */
    public function withdraw(bool $hasTask = false): void
    {
        if ($this->isOpen || $hasTask) {
            $this->isOpen = false;
            $this->unconfirmed++;
            $this->channel->write(Frame::of(Type::READY)->encode());
        }
    }

    /** Whether no task can come unless it is asked for. */
    public function isSettled(): bool
    {
        return !$this->isOpen && $this->unconfirmed === 0;
    }

    /** A task has come. */
    public function met(): void
    {
        $this->isOpen = false;
    }

    public function confirmed(): void
    {
        $this->unconfirmed = max(0, $this->unconfirmed - 1);
    }
}
