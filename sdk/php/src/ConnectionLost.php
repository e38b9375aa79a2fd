<?php

declare(strict_types=1);

namespace Stoker;

/**
 * The connection ended before the answer.
 *
 * Whether the request was carried out is unknown, unless $notProcessed is true. A push with an idempotencyKey and a
 * call marked idempotent are sent again by themselves, see Client::connect().
 */
final class ConnectionLost extends StokerException
{
}
