<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Status;

/** Thrown by a job's handler: run this job again. Counts as an attempt. */
final class Retry extends Verdict
{
    public const STATUS = Status::RETRY;

    /**
     * @param float|null $delay seconds until the next run, 0 to 4294967 (49 days); null = the queue's backoff
     * @param string     $message why; stands in the job's history
     */
    public function __construct(?float $delay = null, string $message = '', ?\Throwable $previous = null)
    {
        parent::__construct($message !== '' ? $message : $previous?->getMessage() ?? 'released', 0, $previous);
        $this->delay = $delay;
    }
}
