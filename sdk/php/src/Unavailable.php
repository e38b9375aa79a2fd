<?php

declare(strict_types=1);

namespace Stoker;

/** The server is shutting down, or the pool has no healthy worker. A retry may succeed. */
final class Unavailable extends StokerException
{
}
