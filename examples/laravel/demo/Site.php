<?php

namespace Demo;

use RuntimeException;

/** Sends requests to the application's site: first undisturbed, then while processes are killed repeatedly. */
final class Site
{
    private const VISITORS = 16;
    private const QUIET = 3.0;
    private const KILLS = ['workers', 'server', 'workers', 'gateway', 'server', 'workers', 'gateway', 'workers'];
    /** Seconds from one kill to the next, and the least number of requests that are answered meanwhile. */
    private const PAUSE = 0.7;
    private const ANSWERS = 200;

    public readonly Visits $quiet;
    public readonly Visits $storm;
    /** @var array<string, int> number of processes that were killed, by kind */
    private array $killed = ['workers' => 0, 'server' => 0, 'gateway' => 0];
    /** @var list<Visitor> */
    private array $visitors = [];

    public function __construct(private Broker $broker, private Progress $progress)
    {
        $this->quiet = new Visits();
        $this->storm = new Visits();
    }

    public function run(): void
    {
        $warm = new Visits();
        for ($i = 0; $i < self::VISITORS; $i++) {
            $this->visitors[] = $visitor = new Visitor($this->broker->site, $warm);
            $visitor->ask();
        }
        $this->visit($warm, 0.5);
        $this->visit($this->quiet, self::QUIET);
        $this->progress->say('requesting pages while processes are killed');
        $start = microtime(true);
        foreach (self::KILLS as $what) {
            $this->kill($what);
            $this->visit($this->storm, self::PAUSE, self::ANSWERS);
        }
        $this->storm->seconds = microtime(true) - $start;
        foreach ($this->visitors as $visitor) {
            $visitor->close();
        }
    }

    /** Number of requests that were not answered, or not correctly, and of connections that were refused. */
    public function lost(): int
    {
        $lost = static fn (Visits $visits) => $visits->refused + $visits->failed;

        return $lost($this->quiet) + $lost($this->storm);
    }

    public function report(): string
    {
        return sprintf(
            "The same application as a site, over %d connections, answered by the same 2 workers. Killed by SIGKILL in the second\n"
                . "part: %d workers, the server %d times, the HTTP gateway %d times\n\n%s",
            self::VISITORS,
            ...[...array_values($this->killed), Table::render([
                ['GET requests', ...Visits::HEADINGS],
                ['undisturbed', ...$this->quiet->row()],
                ['while processes are killed', ...$this->storm->row()],
            ])],
        );
    }

    private function kill(string $what): void
    {
        $this->killed[$what] += match ($what) {
            'workers' => $this->broker->killWorkers(),
            'server' => $this->broker->killServer(),
            'gateway' => $this->broker->killGateway(),
        };
    }

    /** Lets the visitors send requests for some seconds, and until some have been answered. */
    private function visit(Visits $visits, float $seconds, int $answers = 1): void
    {
        foreach ($this->visitors as $visitor) {
            $visitor->count($visits);
        }
        [$start, $answers] = [microtime(true), $visits->answered + $answers];
        while (($took = microtime(true) - $start) < $seconds || $visits->answered < $answers) {
            if ($took > 10) {
                throw new RuntimeException("The site answered too few requests in 10 s: {$visits->answered} of $answers");
            }
            $this->turn();
        }
        $visits->seconds = $took;
    }

    private function turn(): void
    {
        $readable = array_map(static fn (Visitor $visitor) => $visitor->connection, $this->visitors);
        $none = null;
        // False if a signal interrupted it; the array is unchanged then.
        if (! @stream_select($readable, $none, $none, 1)) {
            return;
        }
        foreach (array_keys($readable) as $i) {
            if ($this->visitors[$i]->read()) {
                $this->visitors[$i]->ask();
            }
        }
    }
}
