<?php

declare(strict_types=1);

namespace Stoker\Internal;

use function error_reporting;
use function ini_get;
use function restore_error_handler;
use function set_error_handler;

/**
 * Undoes what a task changed for those after it: error handlers, the error level, the time limit.
 *
 * PHP lets nobody see the whole stack of handlers, only its top. So a handler that a task sets once more, the very
 * same callable, stays on the stack; it does no harm there. A handler for uncaught exceptions does none either: the
 * worker catches them all.
 *
 * @internal
 */
final class Guard
{
    /** Handlers that are looked through for the one that was there before. */
    private const DEPTH = 100;

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
        for ($i = 0; set_error_handler(null) !== $this->errors && $i < self::DEPTH; $i++) {
            restore_error_handler(); // takes our null away
            restore_error_handler(); // and this the task's
        }
        restore_error_handler();
        if ($i === self::DEPTH) {
            set_error_handler($this->errors); // A task has taken it away.
        }
    }
}
