<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Status;

/** Thrown by a job's handler that has not begun: give the job to somebody else. Costs it no attempt. */
final class Returned extends Verdict
{
    public const STATUS = Status::RETURNED;

    public function __construct(string $message = 'not started')
    {
        parent::__construct($message);
    }
}
