<?php

namespace Demo;

use RuntimeException;

/** Runs `stoker serve` for this application, with its own socket and job store. */
final class Broker
{
    public readonly string $socket;
    /** The address of the application's site. */
    public readonly string $site;
    private Process $process;

    public function __construct(private string $binary, private string $directory)
    {
        $this->socket = "$directory/stoker.sock";
        // Read by the connection in config/queue.php, by the SDK's client and by every stoker command.
        putenv("STOKER_SOCKET=$this->socket");
        $this->configure();
        $this->start();
    }

    /** Writes the application's configuration, with the job store in the directory of this run. */
    private function configure(): void
    {
        $application = dirname(__DIR__);
        $toml = file_get_contents("$application/stoker.toml");
        $this->site = self::freeAddress();
        $toml = strtr($toml, [
            '[pool.app]' => "[pool.app]\ndirectory = \"$application\"",
            '127.0.0.1:8080' => $this->site,
            'root = "' => "root = \"$application/",
        ]);
        file_put_contents("$this->directory/stoker.toml", "$toml\n[store]\npath = \"$this->directory/stoker.db\"\n");
    }

    private static function freeAddress(): string
    {
        return stream_socket_get_name(stream_socket_server('tcp://127.0.0.1:0'), false);
    }

    private function start(): void
    {
        $command = [$this->binary, 'serve', '-c', "$this->directory/stoker.toml", '--socket', $this->socket];
        $this->process = new Process($command, $this->log());
    }

    /** Kills the server process. The angel starts it again. Returns the number of processes: 1. */
    public function killServer(): int
    {
        return $this->killChild('stoker: server');
    }

    /** Kills the process that serves the site. The angel, which holds its listening sockets, starts it again. */
    public function killGateway(): int
    {
        return $this->killChild('stoker: gateway sites');
    }

    private function killChild(string $name): int
    {
        $pids = array_keys($this->process->children(), $name, true);

        return count(array_filter($pids, static fn (int $pid) => posix_kill($pid, SIGKILL)));
    }

    /** Kills angel, server and workers at once, like a power failure, and starts them again. */
    public function killAll(): void
    {
        $pids = array_filter(array_column($this->show('workers')['workers'] ?? [], 'pid'));
        $this->process->kill([...array_keys($this->process->children()), ...$pids]);
        $this->start();
    }

    /** Number of jobs that are neither done nor failed in the job store. */
    public function unfinished(): int
    {
        $queues = $this->show('queues')['queues'] ?? [];

        return array_sum(array_map(static fn (array $queue) => $queue['ready'] + $queue['delayed'] + $queue['running'], $queues));
    }

    /** Waits until all configured workers have booted the application. */
    public function awaitReady(float $seconds): void
    {
        for ($deadline = microtime(true) + $seconds; microtime(true) < $deadline; usleep(20_000)) {
            if (! $this->process->running()) {
                break;
            }
            $pool = $this->show('workers')['pools'][0] ?? null;
            if ($pool !== null && $pool['ready'] + $pool['busy'] >= $pool['min']) {
                return;
            }
            if (($pool['state'] ?? '') === 'unhealthy') {
                break;
            }
        }
        throw new RuntimeException("The broker and its workers did not become ready. The broker's log:\n" . $this->logTail());
    }

    /** Kills all current workers and returns their number. */
    public function killWorkers(): int
    {
        $pids = array_filter(array_column($this->show('workers')['workers'] ?? [], 'pid'));

        return count(array_filter($pids, static fn (int $pid) => posix_kill($pid, SIGKILL)));
    }

    /** @return array<string, mixed>|null the output of `stoker $what --json`; null if the command failed */
    public function show(string ...$what): ?array
    {
        $command = ['timeout', '10', $this->binary, ...$what, '--json'];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['file', '/dev/null', 'w']], $pipes);
        $output = stream_get_contents($pipes[1]);

        return proc_close($process) === 0 ? json_decode($output, true) : null;
    }

    public function stop(): void
    {
        if (! $this->process->stop(10.0)) {
            throw new RuntimeException("The broker did not drain in 10 s. Its log:\n" . $this->logTail());
        }
    }

    private function logTail(): string
    {
        return implode('', array_slice(file($this->log()), -20));
    }

    private function log(): string
    {
        return "$this->directory/stoker.log";
    }
}
