<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Status;

/**
 * Base class of the outcomes other than "done" that a job's handler can choose. Throw a subclass, or use
 * Task::release(), Task::fail() or Task::returned().
 */
abstract class Verdict extends \RuntimeException
{
    /** Status of the answer: docs/reference/protocol.md, section 5. */
    public const STATUS = Status::UNKNOWN;

    /** Seconds until the next run; null = the queue's backoff. */
    public ?float $delay = null;

    /** @internal sets the place to report: the line where the handler called the method of Task that made this verdict */
    public function calledFrom(?string $file, ?int $line): static
    {
        $this->file = $file ?? $this->file;
        $this->line = $line ?? $this->line;

        return $this;
    }
}
