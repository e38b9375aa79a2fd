<?php

declare(strict_types=1);

namespace Stoker\Wire;

/** The peer sent bytes that are no frame of this protocol. The connection can't be trusted any more. */
final class WireError extends \RuntimeException
{
}
