<?php

declare(strict_types=1);

namespace Stoker\Laravel;

/**
 * The exception that failed() receives if a previous worker died in failed(). It has the message of the original
 * exception.
 */
final class FailedBefore extends \RuntimeException
{
    public function __construct(string $class, string $message)
    {
        parent::__construct("$class: $message (a worker died in failed(), so failed() is called again)");
    }
}
