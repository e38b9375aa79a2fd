<?php

declare(strict_types=1);

namespace Stoker;

/** The server accepted the connection, but the request needs root or the server's own user, or a valid token. */
final class PermissionDenied extends StokerException
{
}
