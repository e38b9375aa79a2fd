<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Queue\Failed\CountableFailedJobProvider;

/** For versions of Laravel that know how to ask for numbers. */
final class CountableFailedJobs extends FailedJobs implements CountableFailedJobProvider
{
}
