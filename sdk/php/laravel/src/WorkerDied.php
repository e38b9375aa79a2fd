<?php

declare(strict_types=1);

namespace Stoker\Laravel;

/** The exception of a job that failed because its workers died too often. */
final class WorkerDied extends \RuntimeException
{
    public function __construct(string $job, int $crashes)
    {
        parent::__construct("the worker died $crashes times while it ran $job");
    }
}
