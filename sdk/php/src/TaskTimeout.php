<?php

declare(strict_types=1);

namespace Stoker;

/**
 * Thrown inside a handler whose time is up, if the worker asked for it with Worker::softCancel(). Clean up and let it
 * pass. It is an Error, so that a loop's `catch (\Exception $e)` does not swallow it.
 */
final class TaskTimeout extends \Error
{
    public function __construct(string $message = 'the time for this task is up')
    {
        parent::__construct($message);
    }
}
