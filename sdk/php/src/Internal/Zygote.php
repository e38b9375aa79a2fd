<?php

declare(strict_types=1);

namespace Stoker\Internal;

use function strlen;

/**
 * Forks the workers of a pool with strategy "fork", after the application has booted. It gets requests from Stoker over a
 * socket of records, which the protocol page describes, and reports how its children end.
 *
 * @internal
 */
final class Zygote
{
    /** The environment variable with the name of the abstract unix socket to connect to. */
    public const VARIABLE = 'STOKER_ZYGOTE';
    private const EXTENSIONS = ['pcntl', 'posix', 'sockets'];
    private const VERSION = 1;
    /** Maximum length of a record, in bytes. */
    private const MAX_RECORD = 4096;
    private const SPAWN = 1;
    private const READY = 1;
    private const SPAWNED = 2;
    private const EXITED = 3;
    private const FAILED = 4;
    /** Socket, stdout and stderr of a worker. */
    private const DESCRIPTORS = 3;
    private const EOF = 0;

    /**
     * Signals that are blocked here. SIGIO announces a record, and SIGCHLD the end of a child: waiting for both signals can't
     * miss either, unlike a read that a signal interrupts. With SIGHUP, a child asks for a new zygote. TERM and INT must not end
     * the zygote: Stoker decides when it ends.
     */
    private const BLOCKED = [SIGCHLD, SIGIO, SIGHUP, SIGTERM, SIGINT];
    private const AWAITED = [SIGCHLD, SIGIO, SIGHUP];

    private \Socket $socket;
    /** @var array<int, int> keys of the workers, by pid */
    private array $children = [];
    private Child $child;
    /** @var list<int> signals that were blocked before */
    private array $mask = [];
    /** @var callable|int the application's handler of SIGCHLD */
    private $onChild;
    private int $controlSpace;
    /** How many processes this one has forked. */
    private int $forked = 0;

    /** Whether this process was started to fork workers. */
    public static function isRequested(): bool
    {
        return getenv(self::VARIABLE) !== false;
    }

    /**
     * @throws \LogicException   a PHP extension is missing
     * @throws \RuntimeException Stoker does not accept the connection
     */
    public function __construct()
    {
        $missing = array_filter(self::EXTENSIONS, static fn (string $name): bool => !extension_loaded($name));
        if ($missing !== []) {
            throw new \LogicException(
                'strategy "fork" needs the PHP extensions ' . implode(', ', self::EXTENSIONS) . '; missing: ' . implode(', ', $missing)
                . '. Install them, or set strategy = "spare" in the pool\'s configuration, which needs none of them',
            );
        }
        $name = (string) getenv(self::VARIABLE);
        putenv(self::VARIABLE);
        unset($_ENV[self::VARIABLE], $_SERVER[self::VARIABLE]);
        set_error_handler(static fn (): bool => true);
        try {
            $socket = socket_create(AF_UNIX, SOCK_SEQPACKET, 0);
            $connected = $socket !== false && socket_connect($socket, "\0$name");
        } finally {
            restore_error_handler();
        }
        if (!$connected) {
            throw new \RuntimeException('cannot connect to Stoker as the zygote of this pool: ' . socket_strerror(socket_last_error()));
        }
        $this->socket = $socket;
        $this->controlSpace = socket_cmsg_space(SOL_SOCKET, SCM_RIGHTS, self::DESCRIPTORS);
    }

    /**
     * Forks workers when they are requested. Returns only in the children.
     *
     * @return resource the worker's connection to the server
     */
    public function serve()
    {
        $this->prepare();
        $this->report(pack('CCC', self::READY, self::VERSION, SIGIO));
        for ($signal = SIGIO; ; $signal = pcntl_sigwaitinfo(self::AWAITED)) {
            while (($request = $this->receive()) !== null) {
                if (($stream = $this->spawn(...$request)) !== null) {
                    return $stream;
                }
            }
            $this->reap();
            if ($signal === SIGHUP) {
                exit(0); // Stoker starts a new one. The children continue.
            }
        }
    }

    private function prepare(): void
    {
        Hooks::run(Hooks::$beforeFork);
        Preload::all();
        // What the application has printed so far would otherwise be printed by each child.
        while (ob_get_level() > 0 && ob_end_flush()) {
        }
        $this->child = new Child();
        $this->onChild = pcntl_signal_get_handler(SIGCHLD);
        pcntl_signal(SIGCHLD, SIG_DFL);
        pcntl_sigprocmask(SIG_BLOCK, self::BLOCKED, $this->mask);
        // Children share this memory until they write to it.
        gc_collect_cycles();
        gc_mem_caches();
        // An application's error handler may turn the warnings of the calls below into exceptions.
        set_error_handler(static fn (): bool => true);
    }

    /** @return array{int, string, string, array<int, mixed>}|null key, name and cookie of a worker, and its descriptors */
    private function receive(): ?array
    {
        $message = ['buffer_size' => self::MAX_RECORD, 'controllen' => $this->controlSpace];
        $length = socket_recvmsg($this->socket, $message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if ($length === self::EOF) {
            exit(0); // Stoker has ended.
        }
        if ($length === false) {
            return null;
        }
        $record = substr($message['iov'][0], 0, $length);
        if (ord($record[0]) !== self::SPAWN || strlen($record) < 10) {
            exit(1); // Invalid record: Stoker knows the version of this zygote and sends it no others.
        }
        [$name, $cookie] = explode("\0", substr($record, 9), 2) + [1 => ''];

        return [unpack('P', $record, 1)[1], $name, $cookie, $message['control'][0]['data'] ?? []];
    }

    /**
     * @param array<int, mixed> $descriptors
     * @return resource|null the worker's connection, in the child
     */
    private function spawn(int $key, string $name, string $cookie, array $descriptors)
    {
        $pid = pcntl_fork();
        if ($pid === 0) {
            socket_close($this->socket);
            $stream = $this->child->adopt($name, $cookie, $descriptors, $this->forked);
            pcntl_signal(SIGCHLD, $this->onChild);
            pcntl_sigprocmask(SIG_SETMASK, $this->mask);
            restore_error_handler();
            Hooks::run(Hooks::$afterFork);

            return $stream;
        }
        if ($pid < 0) {
            $this->report(pack('CPa*', self::FAILED, $key, 'cannot fork: ' . pcntl_strerror(pcntl_get_last_error())));
        } else {
            $this->forked++;
            $this->children[$pid] = $key;
            $this->report(pack('CPV', self::SPAWNED, $key, $pid));
        }

        return null;
    }

    /** Reports the children that have ended. */
    private function reap(): void
    {
        while (($pid = pcntl_waitpid(-1, $status, WNOHANG)) > 0) {
            $key = $this->children[$pid] ?? null;
            unset($this->children[$pid]);
            if ($key !== null) {
                $end = pcntl_wifsignaled($status) ? [1, pcntl_wtermsig($status)] : [0, pcntl_wexitstatus($status)];
                $this->report(pack('CPCC', self::EXITED, $key, ...$end));
            }
        }
    }

    private function report(string $record): void
    {
        if (socket_send($this->socket, $record, strlen($record), MSG_NOSIGNAL) !== strlen($record)) {
            exit(1); // Stoker has ended.
        }
    }
}
