<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;

/** A job for real workers: run by run it follows its script, and tells what happens. */
final class Scripted implements ShouldQueue
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    public $tries;
    public $timeout;

    /** @param list<string> $script what to do in the first run, the second, …; after its end "done" */
    public function __construct(private string $name, private array $script, ?int $tries = null, ?int $timeout = null)
    {
        $this->connection = 'live';
        $this->tries = $tries;
        $this->timeout = $timeout;
    }

    public function handle(): void
    {
        // Runs that the process did not survive count too, so the number can't be kept in the process.
        $run = Story::count($this->name);
        Story::tell("$this->name run {$this->attempts()}");
        [$what, $argument] = explode(' ', $this->script[$run - 1] ?? 'done') + [1 => ''];
        match ($what) {
            'done' => null,
            'throw' => throw new \DomainException('as scripted'),
            'exit' => exit(7),
            'kill' => posix_kill(getmypid(), SIGKILL),
            'release' => $this->release((int) $argument),
            'fail' => $this->fail(new \LogicException('as scripted')),
            'hang' => $this->hang(),
            'push' => self::dispatch($argument, [])->onConnection('stoker'),
        };
        Story::tell("$this->name end");
    }

    public function failed(?\Throwable $e): void
    {
        Story::tell("$this->name failed " . class_basename($e));
    }

    private function hang(): void
    {
        while (true) {
            usleep(10_000);
        }
    }
}
