<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Codec;
use Stoker\Wire\Frame;
use Stoker\Wire\Status;

/**
 * The answers that a worker on another machine keeps, because a written answer may be lost with the connection. Each is a
 * complete frame, which is written again unchanged. If they are too large together, the oldest are replaced with errors.
 *
 * @internal
 */
final class UnconfirmedAnswers
{
    /** The server assigns at most this many tasks at once. So when this many more have arrived, it has received an answer. */
    private const MAX_ASSIGNED = 64;
    /** Maximum size of all kept answers together, in bytes. */
    private const MAX_BYTES = 4 << 20;

    /** @var array<int, array{string, int}> frame, and $received when it was written; by task id, the oldest first */
    private array $kept = [];
    private int $bytes = 0;
    /** Number of received tasks. */
    private int $received = 0;

    /** Called when a task arrives. If the server reuses the id of an older task, it has received the answer to that one. */
    public function onTask(int $id): void
    {
        $this->received++;
        $this->forget($id);
        foreach ($this->kept as $old => [, $at]) {
            if ($this->received - $at < self::MAX_ASSIGNED) {
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
            if ($this->bytes <= self::MAX_BYTES) {
                break;
            }
            // Without an answer, the server would send the task again, and it would run twice.
            $lost = Frame::answer($old, Status::APPLICATION, Codec::RAW, 0, '', 'the answer was lost with the connection and was too large to be kept');
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
     * Keeps only the answers to these tasks.
     *
     * @param array<int, mixed> $ids the tasks whose answers the server still awaits, as keys
     * @return string the frames of the kept answers, in the order in which they were written
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
