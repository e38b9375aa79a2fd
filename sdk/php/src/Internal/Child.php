<?php

declare(strict_types=1);

namespace Stoker\Internal;

/**
 * A process that a zygote has forked: what it must not share with the others, and how it ends.
 *
 * @internal
 */
final class Child
{
    /** How far apart two processes that are forked one after the other begin in the sequence of lcg_value(). */
    private const LCG_STRIDE = 16;
    /** After this many numbers, a process may repeat the numbers of an earlier one. */
    private const LCG_PERIOD = 4096;

    /** The pid of the zygote; null if this process was not forked. */
    private static ?int $zygote = null;

    /** For dup2(); null if FFI is not available. */
    private ?\FFI $libc = null;
    /** @var list<int> numbers that the next received descriptors get */
    private array $numbers;
    /** Whether the application has called lcg_value(), so that all processes would continue its sequence. */
    private bool $isLcgSeeded;
    /** @var list<resource> streams whose descriptors must stay open as long as the process lives */
    private static array $streams = [];

    /** Called in the zygote. From here on it must not open descriptors. */
    public function __construct()
    {
        if (extension_loaded('ffi')) {
            try {
                $this->libc = \FFI::cdef('int dup2(int from, int to);');
            } catch (\FFI\Exception) {
                // Disabled by ffi.enable: PHP's own means are used.
            }
        }
        $this->isLcgSeeded = self::isLcgSeeded();
        if ($this->isLcgSeeded) {
            file_put_contents('php://stderr', "stoker: lcg_value() was called at boot. It can't be seeded again, so forked processes get numbers of one sequence: use random_int() or mt_rand()\n");
        }
        $this->numbers = [];
        for ($number = 0; count($this->numbers) < 3; $number++) {
            is_link("/proc/self/fd/$number") || $this->numbers[] = $number;
        }
    }

    /**
     * Makes this process the worker that was requested.
     *
     * @param array<int, mixed> $descriptors socket, stdout and stderr
     * @param int $number how many processes the zygote has forked before
     * @return resource the worker's connection to the server
     */
    public function adopt(string $name, string $cookie, array $descriptors, int $number)
    {
        self::$zygote = posix_getppid();
        // Stoker kills the process group with the worker.
        posix_setpgid(0, 0);
        [$socket, $stdout, $stderr] = $descriptors;
        $this->redirect($stdout, $this->numberOf($stdout, 1), 1);
        $this->redirect($stderr, $this->numberOf($stderr, 2), 2);
        foreach (['STOKER_WORKER' => $name, 'STOKER_COOKIE' => $cookie] as $variable => $value) {
            putenv("$variable=$value");
            $_SERVER[$variable] = $value;
            isset($_ENV[$variable]) && $_ENV[$variable] = $value;
        }
        $_SERVER['REQUEST_TIME_FLOAT'] = microtime(true);
        $_SERVER['REQUEST_TIME'] = (int) $_SERVER['REQUEST_TIME_FLOAT'];
        $this->reseed($number);

        return Socket::adopted($socket);
    }

    /**
     * Ends this process at once: shutdown functions and destructors belong to the application in the zygote. Stoker counts
     * this signal as exit code 0.
     */
    public static function end(): never
    {
        while (ob_get_level() > 0 && ob_end_flush()) {
        }
        pcntl_signal(SIGVTALRM, SIG_DFL);
        pcntl_sigprocmask(SIG_UNBLOCK, [SIGVTALRM]);
        posix_kill(getmypid(), SIGVTALRM);
        exit(0);
    }

    /** Ends the zygote, so that later processes are forked from one that boots again. */
    public static function endZygote(): void
    {
        // The zygote of Stoker's PHP host.
        \function_exists('stoker_reboot') && \stoker_reboot();
        // If the zygote has ended already, this process has another parent.
        if (self::$zygote !== null && posix_getppid() === self::$zygote) {
            posix_kill(self::$zygote, SIGHUP);
        }
    }

    /** PHP's own generators would give the same numbers in each child. */
    private function reseed(int $number): void
    {
        mt_srand(random_int(0, 0xFFFFFFFF));
        // This one can't be seeded, only advanced.
        $skip = $this->isLcgSeeded ? $number * self::LCG_STRIDE % self::LCG_PERIOD : 0;
        for (; $skip > 0; $skip--) {
            lcg_value();
        }
    }

    /** PHP does not report it, but two processes that are forked now get the same number only then. */
    private static function isLcgSeeded(): bool
    {
        $numbers = [];
        for ($i = 0; $i < 2; $i++) {
            [$here, $there] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            $pid = pcntl_fork();
            if ($pid === 0) {
                fwrite($there, (string) lcg_value());
                posix_kill(getmypid(), SIGKILL);
            }
            fclose($there);
            $numbers[] = stream_get_contents($here);
            fclose($here);
            $pid > 0 && pcntl_waitpid($pid, $status);
        }

        return $numbers[0] === $numbers[1];
    }

    /**
     * The number of a received descriptor, which PHP does not report.
     *
     * @param resource $stream
     */
    private function numberOf($stream, int $at): int
    {
        $inode = fstat($stream)['ino'];
        $number = $this->numbers[$at];
        if ((stat("/proc/self/fd/$number")['ino'] ?? null) === $inode) {
            return $number;
        }
        foreach (scandir('/proc/self/fd') ?: [] as $number) {
            if ((stat("/proc/self/fd/$number")['ino'] ?? null) === $inode && $number > 2) {
                return (int) $number;
            }
        }
        throw new \RuntimeException('a received descriptor is not listed in /proc/self/fd');
    }

    /**
     * Makes a descriptor the standard output or error.
     *
     * @param resource $stream
     */
    private function redirect($stream, int $from, int $to): void
    {
        if ($this->libc !== null) {
            $this->libc->dup2($from, $to);
            fclose($stream);

            return;
        }
        // PHP can't replace an open descriptor. It can close this one, and then the next one to be opened has its number;
        // but the constant STDOUT or STDERR can't be used any more.
        $name = $to === 1 ? 'STDOUT' : 'STDERR';
        defined($name) && is_resource(constant($name)) && fclose(constant($name));
        self::$streams[] = fopen("php://fd/$from", 'w');
        fclose($stream);
    }
}
