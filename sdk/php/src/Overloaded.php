<?php

declare(strict_types=1);

namespace Stoker;

/**
 * A limit was reached (status 8), or the call could not have been served in time (status 35). Retry after $retryAfter
 * seconds.
 */
final class Overloaded extends StokerException
{
}
