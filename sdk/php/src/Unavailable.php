<?php

declare(strict_types=1);

namespace Stoker;

/** The broker is draining, or the pool has no healthy worker. A repeat may go well. */
final class Unavailable extends StokerException
{
}
