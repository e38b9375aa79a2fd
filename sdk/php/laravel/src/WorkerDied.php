<?php

declare(strict_types=1);

namespace Stoker\Laravel;

/** Why a job failed that never got to say so itself. */
final class WorkerDied extends \RuntimeException
{
    public function __construct(string $job, int $crashes)
    {
        parent::__construct("$job ended its worker's process $crashes times");
    }
}
