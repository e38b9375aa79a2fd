<?php

declare(strict_types=1);

namespace Stoker;

/** The request can't be right, however often it is sent: a wrong name, an argument out of range, a body too large. */
final class InvalidRequest extends StokerException
{
}
