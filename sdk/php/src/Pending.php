<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Link;
use Stoker\Wire\Codec;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

/** A request in flight, returned by Client::callAsync() and Client::pushAsync(). */
final class Pending
{
    /** @internal the answer, once it has arrived */
    public ?Frame $answer = null;

    /** @internal why there will be no answer */
    public ?StokerException $error = null;

    /** @internal id of the request on the current connection; 0 = not queued on a connection yet */
    public int $id = 0;

    /** @internal all bytes of the request were written to the socket, so the server may have received it */
    public bool $sent = false;

    /** @internal hrtime() at which a connection was first lost while this request was in flight; 0 = never */
    public int $lostAt = 0;

    /**
     * @internal
     * @param ?int $deadline nanoseconds of hrtime(); null = no deadline
     * @param bool $isRepeatable the request may be sent again although the server may have received it
     */
    public function __construct(
        private readonly Link $link,
        public readonly string $name,
        private readonly int $codec,
        private readonly string $body,
        public readonly int $flags,
        private readonly int $priority,
        private readonly string $meta,
        public readonly ?int $deadline,
        public readonly bool $isRepeatable,
    ) {
    }

    /** Whether await() would return or throw at once. Does not read from the connection. */
    public function isDone(): bool
    {
        return $this->answer !== null || $this->error !== null;
    }

    /**
     * Waits for the answer.
     *
     * @return mixed the answer: JSON decoded, with objects as arrays; any other codec as a string of bytes
     * @throws StokerException see Client::call()
     */
    public function await(): mixed
    {
        $this->link->await($this);
        if ($this->error !== null) {
            throw $this->error;
        }
        if ($this->answer->code !== Status::OK) {
            throw StokerException::fromAnswer($this->answer, $this->name);
        }
        try {
            return Codec::decode($this->answer->prio, $this->answer->body);
        } catch (\JsonException $e) {
            throw new StokerException("{$this->name}: the answer is not valid JSON", 0, $e);
        }
    }

    /** @internal the frame to send, with the time that remains until the deadline; null if no time remains */
    public function encode(int $id): ?string
    {
        $ms = $this->deadline === null ? 0 : (int) ceil(($this->deadline - hrtime(true)) / 1e6);
        if ($this->deadline !== null && $ms < 1) {
            return null;
        }

        return Frame::of(
            Type::REQ,
            $this->flags,
            $this->codec,
            $this->priority,
            $id,
            min($ms, 0xFFFFFFFF),
            0,
            $this->name,
            $this->meta,
            $this->body,
        )->encode();
    }

    /** @internal approximate size of the frame in bytes */
    public function size(): int
    {
        return strlen($this->meta) + strlen($this->body);
    }

    /** @internal */
    public function isOneWay(): bool
    {
        return (bool) ($this->flags & Flag::ONEWAY);
    }

    /** @internal */
    public function expire(string $why): void
    {
        $this->error = new DeadlineExceeded("{$this->name}: $why");
        $this->error->status = Status::DEADLINE_EXCEEDED;
        $this->error->notProcessed = !$this->sent;
    }
}
