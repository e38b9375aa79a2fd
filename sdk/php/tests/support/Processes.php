<?php

declare(strict_types=1);

namespace Stoker\Tests;

/** Every process that a test started, so that none outlives it. */
final class Processes
{
    /** @var array<int, resource|null> by process id; null for a fork */
    private static array $all = [];

    /**
     * Starts a PHP script.
     *
     * @param list<string> $arguments after `php`
     * @param array<int, mixed> $descriptors as proc_open() has them
     * @param array<string, string> $env beside ours
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
        self::$all[proc_get_status($process)['pid']] = $process;

        return [$process, $pipes];
    }

    /** Forks; the child runs $main, and then is gone without any of PHP's goodbyes. */
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

    /** Ends a process and waits until it is gone. */
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
