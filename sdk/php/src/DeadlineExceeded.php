<?php

declare(strict_types=1);

namespace Stoker;

/** The call did not end within its timeout. $notProcessed is true if no worker started it; otherwise it may still run. */
final class DeadlineExceeded extends StokerException
{
}
