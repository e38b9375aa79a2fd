<?php

namespace App;

/**
 * A log of what really happened, with one line per event, written by all processes. PHP does not buffer plain files,
 * and a short line is appended in one write, so a line survives a SIGKILL that follows it.
 */
final class Ledger
{
    /** @var resource */
    private $file;

    public function __construct(string $path)
    {
        $this->file = fopen($path, 'a');
    }

    /** @param int $waited nanoseconds between the time at which the job was due and its start */
    public function write(string $event, string $job, int $number, int $attempt = 0, int $waited = 0): void
    {
        fwrite($this->file, implode("\t", [$event, $job, $number, $attempt, $waited, hrtime(true), getmypid()]) . "\n");
    }
}
