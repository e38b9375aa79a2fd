<?php

declare(strict_types=1);

namespace Stoker;

/** The worker died while it ran the call, and the call may not run again: it was not marked idempotent. */
final class WorkerDied extends StokerException
{
}
