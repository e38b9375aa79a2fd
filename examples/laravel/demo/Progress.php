<?php

namespace Demo;

/** A progress line on stderr. It is redrawn on a terminal, and printed every few seconds otherwise. */
final class Progress
{
    private bool $terminal;
    private float $last = 0;

    public function __construct()
    {
        $this->terminal = stream_isatty(STDERR);
    }

    public function show(int $done, int $total, string $note): void
    {
        $now = microtime(true);
        if ($now - $this->last < ($this->terminal ? 0.1 : 3.0)) {
            return;
        }
        $this->last = $now;
        $filled = (int) (30 * $done / max(1, $total));
        $bar = str_repeat('#', $filled) . str_repeat('.', 30 - $filled);
        $this->write(sprintf('[%s] %5d of %d  %s', $bar, $done, $total, $note));
    }

    public function say(string $what): void
    {
        $this->last = 0;
        $this->write($what);
    }

    public function clear(): void
    {
        fwrite(STDERR, $this->terminal ? "\r\e[K" : '');
    }

    private function write(string $line): void
    {
        fwrite(STDERR, $this->terminal ? "\r\e[K$line" : "$line\n");
    }
}
