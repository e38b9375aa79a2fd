<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Kind;

use function ob_get_level;
use function strlen;

/**
 * Sends the output of a task as log events of that task.
 *
 * An output buffer around the worker's loop catches the output. Each line is sent as soon as it is complete, so that the
 * output of a handler that is killed is not lost. Outside of tasks, and in children that a handler forked, output goes
 * to stdout.
 *
 * @internal
 */
final class Output
{
    /** Maximum size of one log event, in bytes. */
    private const CHUNK = 65536;

    /** Id of the task that prints; 0 between tasks. */
    public int $task = 0;
    /** Output of the task that has not been sent. */
    private string $pending = '';
    /** Nesting level of the buffer that open() started. */
    private int $level = 0;
    /** Whether the buffer is active. A handler may remove it, and an exception in its callback disables it. */
    public bool $open = false;

    public function __construct(private Channel $channel)
    {
    }

    public function open(): void
    {
        // With chunk size 1, PHP passes each echo to the callback at once.
        $this->open = ob_start($this->collect(...), 1);
        $this->level = ob_get_level();
    }

    /** Sends the rest of the task's output, and restores the output buffers that existed before the task. */
    public function end(): void
    {
        if (ob_get_level() !== $this->level || !$this->open) {
            $this->unwind();
        }
        if ($this->pending !== '') {
            $this->flush();
        }
        $this->task = 0;
    }

    /** Removes the buffer: from now on output goes to stdout. */
    public function close(): void
    {
        $this->end();
        // After a fatal error PHP has discarded the buffers already.
        if ($this->open && ob_get_level() > 0) {
            ob_end_flush();
        }
    }

    /** Sends the pending output. */
    public function flush(): void
    {
        $bytes = $this->pending;
        $this->pending = '';
        foreach (strlen($bytes) > self::CHUNK ? str_split($bytes, self::CHUNK) : [$bytes] as $chunk) {
            if ($chunk !== '') {
                $this->channel->event(Kind::LOG, $this->task, $chunk, Kind::STDOUT);
            }
        }
    }

    private function collect(string $bytes, int $phase): string
    {
        if ($phase & PHP_OUTPUT_HANDLER_FINAL) {
            $this->open = false;
        }
        if ($this->task === 0 || !$this->channel->isMine()) {
            return $bytes;
        }
        $this->pending .= $bytes;
        if (str_ends_with($bytes, "\n") || strlen($this->pending) >= self::CHUNK) {
            $this->flush();
        }

        return '';
    }

    /** Closes the buffers that the task left open, innermost first, and reopens our buffer if necessary. */
    private function unwind(): void
    {
        $floor = $this->open ? $this->level : $this->level - 1;
        for ($level = ob_get_level(); $level > $floor; $level--) {
            try {
                @ob_end_flush();
            } catch (\Throwable) {
                // Thrown by the callback of a buffer that the handler opened. The outcome of the task is already
                // decided.
            }
        }
        $this->open ? $this->level = ob_get_level() : $this->open();
    }
}
