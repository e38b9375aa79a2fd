<?php

declare(strict_types=1);

namespace Stoker;

/** This call has killed too many workers and is not assigned to another one for a while. See `stoker quarantine list`. */
final class Quarantined extends StokerException
{
}
