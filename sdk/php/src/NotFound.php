<?php

declare(strict_types=1);

namespace Stoker;

/** There is no such thing: a job with that id, a queue of that name. */
final class NotFound extends StokerException
{
}
