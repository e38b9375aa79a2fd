<?php

declare(strict_types=1);

namespace Stoker;

/**
 * The broker itself can't tell whether the request was carried out: of a push that the disk failed in the middle of
 * writing it, and that it could not look since. To push again with the same idempotencyKey is safe.
 */
final class InDoubt extends StokerException
{
}
