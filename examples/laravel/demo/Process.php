<?php

namespace Demo;

/** A process in a group of its own, so that it ends with everything it started. */
final class Process
{
    /** @var resource */
    private $handle;
    public readonly int $pid;

    /** @var array<int, self> those that have not been stopped */
    private static array $alive = [];

    /** @param list<string> $command */
    public function __construct(array $command, string $log)
    {
        $out = fopen($log, 'a');
        // setsid finds a child that leads no group, so it does not fork: its pid is the command's.
        $this->handle = proc_open(['setsid', ...$command], [['file', '/dev/null', 'r'], $out, $out], $pipes, dirname(__DIR__));
        $this->pid = proc_get_status($this->handle)['pid'];
        self::$alive[$this->pid] = $this;
    }

    public function running(): bool
    {
        return proc_get_status($this->handle)['running'];
    }

    /** @return array<int, string> pids of its children, each with its program's name */
    public function children(): array
    {
        $children = [];
        foreach (explode(' ', (string) @file_get_contents("/proc/$this->pid/task/$this->pid/children")) as $pid) {
            if ($pid !== '') {
                $children[(int) $pid] = trim((string) @file_get_contents("/proc/$pid/comm"));
            }
        }

        return $children;
    }

    /** Ends it and these others at once, none of them with a chance to say anything. */
    public function kill(array $others): void
    {
        foreach ([$this->pid, ...$others] as $pid) {
            posix_kill($pid, SIGKILL);
        }
        while ($this->running()) {
            usleep(1000);
        }
        unset(self::$alive[$this->pid]);
    }

    /** Asks, waits, then insists; true when asking was enough. */
    public function stop(float $grace = 5.0): bool
    {
        posix_kill(-$this->pid, SIGTERM) || posix_kill($this->pid, SIGTERM);
        for ($end = microtime(true) + $grace; $this->running() && microtime(true) < $end;) {
            usleep(5000);
        }
        $asked = ! $this->running();
        posix_kill(-$this->pid, SIGKILL);
        while ($this->running()) {
            usleep(1000);
        }
        unset(self::$alive[$this->pid]);

        return $asked;
    }

    public static function stopAll(): void
    {
        foreach (self::$alive as $process) {
            $process->stop(2.0);
        }
    }
}
