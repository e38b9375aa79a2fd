<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

/** Job middleware that releases the first run and lets later runs pass. */
final class ReleasesFirst
{
    public function handle(Act $job, \Closure $next): void
    {
        $job->attempts() === 1 ? $job->release(4) : $next($job);
    }
}
