<?php

declare(strict_types=1);

namespace Stoker;

/** A limit was met (status 8), or the call could not have been served in time (status 35). Try after $retryAfter seconds. */
final class Overloaded extends StokerException
{
}
