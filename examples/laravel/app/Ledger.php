<?php

namespace App;

/**
 * What really happened, one line per event, whoever wrote it. Plain files are not buffered by PHP and an
 * appended line of this size is written whole, so a line survives a SIGKILL that comes right after it.
 */
final class Ledger
{
    /** @var resource */
    private $file;

    public function __construct(string $path)
    {
        $this->file = fopen($path, 'a');
    }

    /** $waited: nanoseconds from the moment the job could have started to the moment it did. */
    public function write(string $event, string $job, int $number, int $attempt = 0, int $waited = 0): void
    {
        fwrite($this->file, implode("\t", [$event, $job, $number, $attempt, $waited, hrtime(true), getmypid()]) . "\n");
    }
}
