<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Frame;

use function array_key_first;

/** The tasks that a worker has received and not started, in the order of their arrival. @internal */
final class WaitingTasks
{
    /** Something is known of a task besides its frame: wasCancelled() and arrival() need not be called otherwise. */
    public bool $hasNotes = false;
    /** @var array<int, Frame> by id */
    private array $frames = [];
    /** @var array<int, int> hrtime() of the arrival of tasks that were read while another one ran, by id */
    private array $arrivals = [];
    /** @var array<int, true> tasks that were cancelled, by id */
    private array $cancelled = [];

    /** @param int|null $arrived hrtime() of the arrival, if another task runs */
    public function add(Frame $frame, ?int $arrived): void
    {
        $this->frames[$frame->id] = $frame;
        if ($arrived !== null) {
            $this->arrivals[$frame->id] = $arrived;
            $this->hasNotes = true;
        }
    }

    public function isEmpty(): bool
    {
        return $this->frames === [];
    }

    /** Removes the first task and returns it; null if there is none. */
    public function shift(): ?Frame
    {
        $id = array_key_first($this->frames);
        if ($id === null) {
            return null;
        }
        $frame = $this->frames[$id];
        unset($this->frames[$id]);

        return $frame;
    }

    /** Marks a task as cancelled. Returns false if it does not wait here. */
    public function cancel(int $id): bool
    {
        if (!isset($this->frames[$id])) {
            return false;
        }
        $this->cancelled[$id] = true;
        $this->hasNotes = true;

        return true;
    }

    /** Whether a task that shift() has returned was cancelled. Then nothing more is known of it. */
    public function wasCancelled(int $id): bool
    {
        if (!isset($this->cancelled[$id])) {
            return false;
        }
        $this->forget($id);

        return true;
    }

    /** hrtime() of the arrival of a task that shift() has returned, if another one ran then; otherwise $default. */
    public function arrival(int $id, int $default): int
    {
        $arrived = $this->arrivals[$id] ?? $default;
        $this->forget($id);

        return $arrived;
    }

    private function forget(int $id): void
    {
        unset($this->cancelled[$id], $this->arrivals[$id]);
        $this->hasNotes = $this->cancelled !== [] || $this->arrivals !== [];
    }

    /** @return array<int, string> the names of the tasks by id */
    public function names(): array
    {
        return array_map(static fn (Frame $frame): string => $frame->name, $this->frames);
    }

    /** @param array<int, mixed> $ids the tasks to keep, as keys */
    public function keepOnly(array $ids): void
    {
        $this->frames = array_intersect_key($this->frames, $ids);
        $this->cancelled = array_intersect_key($this->cancelled, $ids);
        $this->arrivals = array_intersect_key($this->arrivals, $ids);
    }
}
