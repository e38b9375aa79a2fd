<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Queue\Failed\CountableFailedJobProvider;

/** FailedJobs for versions of Laravel that have the interface CountableFailedJobProvider. */
final class CountableFailedJobs extends FailedJobs implements CountableFailedJobProvider
{
}
