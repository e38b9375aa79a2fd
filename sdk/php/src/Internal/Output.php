<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Wire\Kind;

use function ob_get_level;
use function strlen;

/**
 * What a task prints becomes log events of that task.
 *
 * A buffer at the base catches it. It passes on every line as soon as the line is complete: what a handler printed
 * before it was killed is what tells why. Outside of tasks, and in children that a handler forked, printing goes
 * to stdout as ever.
 *
 * @internal
 */
final class Output
{
    private const CHUNK = 65536;

    /** The task whose output it is; 0 between tasks. */
    public int $task = 0;
    private string $pending = '';
    private int $level = 0;
    /** Whether our buffer is there and works. A handler may remove it, and an exception thrown in it disables it. */
    public bool $open = false;

    public function __construct(private Channel $channel)
    {
    }

    public function open(): void
    {
        // Chunk size 1: the callback gets each echo at once, and PHP keeps nothing back.
        $this->open = ob_start($this->collect(...), 1);
        $this->level = ob_get_level();
    }

    /** Sends what is left of the task's output, and puts the buffers back as they were before it. */
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

    /** From here on printing goes to stdout. */
    public function close(): void
    {
        $this->end();
        // After a fatal error PHP has discarded the buffers already.
        if ($this->open && ob_get_level() > 0) {
            ob_end_flush();
        }
    }

    /** Sends what is held back. */
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

    /** Closes buffers that the task left open, in the order PHP would at the end of a script; opens ours if it was closed. */
    private function unwind(): void
    {
        $floor = $this->open ? $this->level : $this->level - 1;
        for ($level = ob_get_level(); $level > $floor; $level--) {
            try {
                @ob_end_flush();
            } catch (\Throwable) {
                // The callback of a handler's own buffer. Its task has been judged already.
            }
        }
        $this->open ? $this->level = ob_get_level() : $this->open();
    }
}
