<?php

declare(strict_types=1);

namespace Stoker;

/** The method's own code failed: an exception that its handler did not catch (status 64), or a status of its own (65 to 255). */
final class CallFailed extends StokerException
{
    /** Class of the exception in the worker, such as "DomainException". */
    public string $errorClass = '';

    /** Where it was thrown, "file:line". */
    public string $place = '';

    /** What the worker told besides the message, as a rule its stack trace. At most 16 KiB. */
    public string $details = '';
}
