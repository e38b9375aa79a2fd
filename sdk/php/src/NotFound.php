<?php

declare(strict_types=1);

namespace Stoker;

/** The job, queue or other object that the request names does not exist. */
final class NotFound extends StokerException
{
}
