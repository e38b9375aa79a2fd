<?php

declare(strict_types=1);

namespace Stoker;

/** The time for the call is over. $notProcessed tells whether it ever ran; if it did, it may still be running. */
final class DeadlineExceeded extends StokerException
{
}
