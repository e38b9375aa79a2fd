<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Status;

/** Thrown by a job's handler: give this job up, whatever tries it has left. */
final class Fail extends Verdict
{
    public const STATUS = Status::FAILED;

    /** @param string $message why; stands in the job's history */
    public function __construct(string $message = '', ?\Throwable $previous = null)
    {
        parent::__construct($message !== '' ? $message : $previous?->getMessage() ?? 'failed', 0, $previous);
    }
}
