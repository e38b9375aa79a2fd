<?php

declare(strict_types=1);

namespace Stoker\Laravel;

/** What failed() is given when the worker that called it before died in it. The message is that of then. */
final class FailedBefore extends \RuntimeException
{
    public function __construct(string $class, string $message)
    {
        parent::__construct("$class: $message (a worker died in failed(), so it is called again)");
    }
}
