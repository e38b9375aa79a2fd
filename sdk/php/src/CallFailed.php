<?php

declare(strict_types=1);

namespace Stoker;

/**
 * The handler of the called method failed: it threw an exception that it did not catch (status 64), or answered with a
 * status that the application defined (65 to 255).
 */
final class CallFailed extends StokerException
{
    /** Class of the exception that the handler threw, such as "DomainException". */
    public string $errorClass = '';

    /** Where the exception was thrown, as "file:line". */
    public string $place = '';

    /** Text that the worker sent in addition to the message, usually the stack trace. At most 16 KB. */
    public string $details = '';
}
