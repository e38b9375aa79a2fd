<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

/** Lines that workers report to the tests through a FIFO, so that tests wait for events and not for a fixed time. */
final class Story
{
    /** @var list<string> all lines that have been read */
    private array $lines = [];
    /** @var resource */
    private $fifo;
    private string $partial = '';

    public function __construct()
    {
        posix_mkfifo(self::path(), 0600);
        // The pipe is opened for writing too, so that reading does not reach the end of the file when a worker closes it.
        $this->fifo = fopen(self::path(), 'r+');
        stream_set_blocking($this->fifo, false);
    }

    public static function tell(string $line): void
    {
        file_put_contents(self::path(), "$line\n");
    }

    /** Counts the calls with this name in all processes, and returns the number including this call. */
    public static function count(string $name): int
    {
        file_put_contents($counter = getenv('APP_STORAGE') . "/count-$name", '.', FILE_APPEND);

        return strlen(file_get_contents($counter));
    }

    /** Waits for a line. Fails after 10 s. */
    public function await(string $line): void
    {
        $deadline = microtime(true) + 10;
        while (! in_array($line, $this->lines, true)) {
            $read = [$this->fifo];
            $none = null;
            if (microtime(true) > $deadline) {
                throw new \RuntimeException("\"$line\" was not heard in 10 s, but: " . implode(', ', $this->lines));
            }
            stream_select($read, $none, $none, 0, 100_000);
            $this->hear();
        }
    }

    /** @return list<string> the lines of one job, without its name */
    public function of(string $name): array
    {
        $this->hear();
        $own = array_filter($this->lines, static fn (string $line) => str_starts_with($line, "$name "));

        return array_map(static fn (string $line) => substr($line, strlen($name) + 1), array_values($own));
    }

    /** @return array<string, int> the number of occurrences of each line of one job, for jobs that run concurrently */
    public function tally(string $name): array
    {
        $lines = array_count_values($this->of($name));
        ksort($lines);

        return $lines;
    }

    private function hear(): void
    {
        $lines = explode("\n", $this->partial . fread($this->fifo, 65536));
        $this->partial = array_pop($lines);
        array_push($this->lines, ...$lines);
    }

    private static function path(): string
    {
        return getenv('APP_STORAGE') . '/story';
    }
}
