<?php

declare(strict_types=1);

namespace Stoker;

/**
 * The server cannot be reached: nothing listens on its address, this user is not permitted to open its socket, or no TLS connection
 * was possible, for example because of a certificate. No request has been sent.
 */
final class ConnectionRefused extends StokerException
{
    /** @internal the configuration here or at the server must be corrected: another attempt fails in the same way */
    public bool $isMisconfigured = false;
}
