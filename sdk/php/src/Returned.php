<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Status;

/** Thrown by a handler that has not started its work, to give the task to another worker. See Task::returned(). */
final class Returned extends Verdict
{
    public const STATUS = Status::RETURNED;

    public function __construct(string $message = 'not started')
    {
        parent::__construct($message);
    }
}
