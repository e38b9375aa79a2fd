<?php

declare(strict_types=1);

namespace Stoker;

/** No pool serves this name. A typing error, or the pool is not in this broker's configuration. */
final class NoWorker extends StokerException
{
}
