<?php

declare(strict_types=1);

namespace Stoker;

/** This call has killed too many workers; it is not given to another one. See `stoker quarantine list`. */
final class Quarantined extends StokerException
{
}
