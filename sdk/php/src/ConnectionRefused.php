<?php

declare(strict_types=1);

namespace Stoker;

/** Nobody listens at the socket, or it may not be opened. Nothing has been sent. */
final class ConnectionRefused extends StokerException
{
}
