<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Status;

/** Thrown by a job's handler to run the job again later. The current run counts as an attempt. */
final class Retry extends Verdict
{
    public const STATUS = Status::RETRY;

    /**
     * @param float|null $delay seconds until the next run, 0 to 4294967 (49 days); null = the queue's backoff
     * @param string     $message reason, recorded in the job's history; default: the message of $previous
     */
    public function __construct(?float $delay = null, string $message = '', ?\Throwable $previous = null)
    {
        parent::__construct($message !== '' ? $message : $previous?->getMessage() ?? 'released', 0, $previous);
        $this->delay = $delay;
    }
}
