<?php

declare(strict_types=1);

namespace Stoker;

/**
 * The connection ended before the answer arrived.
 *
 * It is unknown whether the request was carried out, unless $notProcessed is true. The client repeats pushes with an
 * idempotencyKey and calls that are marked idempotent, see Client::connect().
 */
final class ConnectionLost extends StokerException
{
}
