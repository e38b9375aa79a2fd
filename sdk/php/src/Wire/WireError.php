<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** The peer sent bytes that are not a valid frame. The connection can no longer be used. */
final class WireError extends \RuntimeException
{
}
