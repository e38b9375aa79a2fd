<?php

namespace Demo;

/** A process in its own process group, so that it can be stopped with all processes that it started. */
final class Process
{
    /** @var resource */
    private $handle;
    public readonly int $pid;

    /** @var array<int, self> the processes that have not been stopped, by pid */
    private static array $alive = [];

    /** @param list<string> $command */
    public function __construct(array $command, string $log)
    {
        $out = fopen($log, 'a');
        // The child is not a process group leader, so setsid does not fork, and the pid is that of the command.
        $this->handle = proc_open(['setsid', ...$command], [['file', '/dev/null', 'r'], $out, $out], $pipes, dirname(__DIR__));
        $this->pid = proc_get_status($this->handle)['pid'];
        self::$alive[$this->pid] = $this;
    }

    public function running(): bool
    {
        return proc_get_status($this->handle)['running'];
    }

    /** @return array<int, string> command lines of the child processes, by pid */
    public function children(): array
    {
        $children = [];
        foreach (explode(' ', (string) @file_get_contents("/proc/$this->pid/task/$this->pid/children")) as $pid) {
            if ($pid !== '') {
                $command = (string) @file_get_contents("/proc/$pid/cmdline");
                $children[(int) $pid] = trim(strtr($command, "\0", ' '));
            }
        }

        return $children;
    }

    /** Sends SIGKILL to this process and to the others. */
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

    /** Sends TERM, waits $grace seconds, then sends KILL. True if the process ended without KILL. */
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
