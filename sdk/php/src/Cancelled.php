<?php

declare(strict_types=1);

namespace Stoker;

/**
 * Thrown where a part of an answer is sent, by Task::write() or from the `yield` or `echo` that makes a response's body: the
 * caller does not wait for the answer any more. Clean up and let it propagate; it is not reported as an error. Like TaskTimeout
 * it extends Error, so that `catch (\Exception $e)` does not swallow it.
 */
final class Cancelled extends \Error
{
}
