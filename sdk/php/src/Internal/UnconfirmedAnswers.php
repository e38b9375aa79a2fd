<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Codec;
use Stoker\Wire\Frame;
use Stoker\Wire\Status;

/**
 * The answers that a worker on another machine keeps, because an answer that was written may be lost with the
 * connection. Each is a complete frame, which is written again unchanged; one that is too large to be kept is replaced by
 * an error.
 *
 * @internal
 */
final class UnconfirmedAnswers
{
    /** Number of further tasks after whose arrival the server must have received an answer. */
    private const TASKS = 64;
    /** Maximum size of all kept answers together, in bytes. */
    private const BYTES = 4 << 20;

    /** @var array<int, array{string, int}> frame, and $received when it was written; by task id, the oldest first */
    private array $kept = [];
    private int $bytes = 0;
    /** Number of tasks that have been received. */
    private int $received = 0;

    /** A task was received. If its id is that of an older task, the server has the answer to that one. */
    public function onTask(int $id): void
    {
        $this->received++;
        $this->forget($id);
        foreach ($this->kept as $old => [, $at]) {
            if ($this->received - $at < self::TASKS) {
                break;
            }
            $this->forget($old);
        }
    }

    public function keep(int $id, string $frame): void
    {
        $this->forget($id);
        $this->kept[$id] = [$frame, $this->received];
        $this->bytes += strlen($frame);
        foreach ($this->kept as $old => [$oldFrame, $at]) {
            if ($this->bytes <= self::BYTES) {
                break;
            }
            // If it were forgotten, the server would send the task again, and it would run twice.
            $lost = Frame::answer($old, Status::APPLICATION, Codec::RAW, 0, '', 'the answer was lost with the connection, and was too large to be kept');
            $this->kept[$old] = [$lost, $at];
            $this->bytes += strlen($lost) - strlen($oldFrame);
        }
    }

    /** @return list<int> the ids of the tasks whose answers are kept */
    public function ids(): array
    {
        return array_keys($this->kept);
    }

    /**
     * Forgets the answers to all tasks except these.
     *
     * @param array<int, mixed> $ids the tasks whose answers the server still awaits, as keys
     * @return string the frames of the answers that are left, in the order in which they were written
     */
    public function select(array $ids): string
    {
        $frames = '';
        foreach ($this->kept as $id => [$frame]) {
            isset($ids[$id]) ? $frames .= $frame : $this->forget($id);
        }

        return $frames;
    }

    private function forget(int $id): void
    {
        if (isset($this->kept[$id])) {
            $this->bytes -= strlen($this->kept[$id][0]);
            unset($this->kept[$id]);
        }
    }
}
