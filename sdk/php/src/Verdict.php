<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Status;

/**
 * What a job's handler says about its end, other than "done" or an exception. Throw one, or use Task::release(),
 * Task::fail() and Task::returned().
 */
abstract class Verdict extends \RuntimeException
{
    /** Status of the answer: docs/reference/protocol.md, section 5. */
    public const STATUS = Status::UNKNOWN;

    /** Seconds until the next run; null leaves it to the queue. */
    public ?float $delay = null;

    /** @internal for a verdict that Task makes: the place to show is where the handler asked for it */
    public function calledFrom(?string $file, ?int $line): static
    {
        $this->file = $file ?? $this->file;
        $this->line = $line ?? $this->line;

        return $this;
    }
}
