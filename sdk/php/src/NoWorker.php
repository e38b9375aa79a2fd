<?php

declare(strict_types=1);

namespace Stoker;

/** No pool serves this name: the name is misspelled, or the pool is missing in the server's configuration. */
final class NoWorker extends StokerException
{
}
