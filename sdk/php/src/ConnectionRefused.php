<?php

declare(strict_types=1);

namespace Stoker;

/** The server cannot be reached: nothing listens on the socket, or this user may not open it. Nothing has been sent. */
final class ConnectionRefused extends StokerException
{
}
