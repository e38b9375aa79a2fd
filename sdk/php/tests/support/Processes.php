<?php

declare(strict_types=1);

namespace Stoker\Tests;

/** All processes that tests have started, so that none outlives its test. */
final class Processes
{
    /** @var array<int, resource|null> by process id; null for a fork */
    private static array $all = [];

    /**
     * Starts a PHP script.
     *
     * @param list<string> $arguments arguments of `php`
     * @param array<int, mixed> $descriptors as for proc_open()
     * @param array<string, string> $env variables that are added to the environment
     * @return array{resource, array<int, resource>} the process and its pipes
     */
    public static function php(array $arguments, array $descriptors, array $env = []): array
    {
        $process = proc_open(
            [PHP_BINARY, '-d', 'display_errors=1', '-d', 'log_errors=0', '-d', 'html_errors=0', ...$arguments],
            $descriptors + [0 => ['file', '/dev/null', 'r']],
            $pipes,
            __DIR__,
            $env + ['STOKER_SOCKET' => '/nonexistent/stoker.sock'] + getenv(),
        );
        self::add($process);

        return [$process, $pipes];
    }

    /** @param resource $process that proc_open() has started */
    public static function add($process): void
    {
        self::$all[proc_get_status($process)['pid']] = $process;
    }

    /** Forks a child that runs $main and then ends without shutdown functions and destructors. Returns its pid. */
    public static function fork(\Closure $main): int
    {
        $pid = pcntl_fork();
        if ($pid === 0) {
            try {
                $main();
            } catch (\Throwable $e) {
                fwrite(STDERR, "in a forked child: $e\n");
            }
            posix_kill(getmypid(), SIGKILL);
        }
        self::$all[$pid] = null;

        return $pid;
    }

    /** Kills a process and waits until it has ended. */
    public static function end(int $pid): void
    {
        $process = self::$all[$pid];
        unset(self::$all[$pid]);
        posix_kill($pid, SIGKILL);
        $process === null ? pcntl_waitpid($pid, $status) : proc_close($process);
    }

    public static function endAll(): void
    {
        foreach (array_keys(self::$all) as $pid) {
            self::end($pid);
        }
    }
}
