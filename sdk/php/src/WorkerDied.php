<?php

declare(strict_types=1);

namespace Stoker;

/** The worker died while it ran the call. The call is not repeated, because it is not marked idempotent. */
final class WorkerDied extends StokerException
{
}
