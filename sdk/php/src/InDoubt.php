<?php

declare(strict_types=1);

namespace Stoker;

/**
 * The server does not know whether the request was carried out: for example, its disk failed while it wrote a pushed
 * job, and it could not read the file since. It is safe to push again with the same idempotencyKey.
 */
final class InDoubt extends StokerException
{
}
