<?php

declare(strict_types=1);

namespace Stoker;

/** The socket let you in, but this needs the broker's own user or root (an admin method), or a token. */
final class PermissionDenied extends StokerException
{
}
