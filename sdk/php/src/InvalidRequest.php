<?php

declare(strict_types=1);

namespace Stoker;

/**
 * The request is invalid and a repeat cannot succeed: for example, a name is malformed, an argument is out of range, or
 * the body is too large.
 */
final class InvalidRequest extends StokerException
{
}
