<?php

declare(strict_types=1);

namespace Stoker;

/**
 * Thrown inside a handler whose time is up, if Worker::softCancel() was called. Clean up and let it propagate. It extends
 * Error, so that `catch (\Exception $e)` in the handler does not swallow it.
 */
final class TaskTimeout extends \Error
{
    public function __construct(string $message = 'the task exceeded its timeout')
    {
        parent::__construct($message);
    }
}
