<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Status;

/** Thrown by a job's handler to fail the job permanently, even if it has tries left. */
final class Fail extends Verdict
{
    public const STATUS = Status::FAILED;

    /** @param string $message reason, recorded in the job's history; default: the message of $previous */
    public function __construct(string $message = '', ?\Throwable $previous = null)
    {
        parent::__construct($message !== '' ? $message : $previous?->getMessage() ?? 'failed', 0, $previous);
    }
}
