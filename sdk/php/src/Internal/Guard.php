<?php

declare(strict_types=1);

namespace Stoker\Internal;

use function error_reporting;
use function ini_get;
use function restore_error_handler;
use function set_error_handler;

/**
 * Restores the settings that a task may have changed: error handlers, the error level and the time limit.
 *
 * PHP exposes only the top of the stack of error handlers. If a task sets the same callable that was set before it, the
 * second entry therefore stays on the stack, which is harmless. Handlers for uncaught exceptions need not be restored,
 * because the worker catches every exception.
 *
 * @internal
 */
final class Guard
{
    /** Maximum number of error handlers that are removed to find the one that was set before the task. */
    private const MAX_HANDLERS = 100;

    private mixed $errors;
    private int $reporting;
    private string|false $limit;

    public function __construct()
    {
        $this->errors = set_error_handler(null);
        restore_error_handler();
        $this->reporting = error_reporting();
        $this->limit = ini_get('max_execution_time');
    }

    public function restore(): void
    {
        if (error_reporting() !== $this->reporting) {
            error_reporting($this->reporting);
        }
        if (ini_get('max_execution_time') !== $this->limit) {
            set_time_limit((int) $this->limit);
        }
        for ($i = 0; set_error_handler(null) !== $this->errors && $i < self::MAX_HANDLERS; $i++) {
            restore_error_handler(); // Removes the null that was set above.
            restore_error_handler(); // Removes the handler of the task.
        }
        restore_error_handler();
        if ($i === self::MAX_HANDLERS) {
            set_error_handler($this->errors); // The task had removed it from the stack.
        }
    }
}
