<?php

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Client;

/** `stoker serve` with one worker of tests/fixtures/live.php, in a new directory, until this object is destroyed. */
final class Server
{
    public readonly Client $client;
    private string $path;
    /** @var resource */
    private $process;

    /** Path of the stoker binary: STOKER_BIN, else the newest build; null if there is none. */
    public static function binary(): ?string
    {
        $root = dirname(__DIR__, 4);
        $built = array_filter(["$root/target/release/stoker", "$root/target/debug/stoker"], 'is_file');
        usort($built, static fn (string $a, string $b) => filemtime($b) <=> filemtime($a));

        return getenv('STOKER_BIN') ?: $built[0] ?? null;
    }

    /**
     * @param string $pool   more lines for the pool's section of stoker.toml
     * @param string $script script of the workers, in tests/fixtures
     * @param list<string>|null $arguments of the script; default: the directory
     */
    public function __construct(string $binary, string $pool = '', string $script = 'live.php', ?array $arguments = null)
    {
        static $n = 0;
        $this->path = sprintf('%s/stoker-php-live-%d-%d', sys_get_temp_dir(), getmypid(), ++$n);
        mkdir($this->path, 0700);
        $command = json_encode([PHP_BINARY, dirname(__DIR__) . "/fixtures/$script", ...$arguments ?? [$this->path]], JSON_UNESCAPED_SLASHES);
        file_put_contents(
            "{$this->path}/stoker.toml",
            "[pool.app]\ncommand = $command\nworkers = 1\n$pool\n[queue.acks]\ntries = 5\nbackoff = [\"0s\"]\n[queue.saves]\n[queue.big]\n[queue.fails]\n[queue.quiet]\n",
        );
        $log = fopen("{$this->path}/log", 'a');
        $this->process = proc_open(
            [$binary, 'serve', '-c', "{$this->path}/stoker.toml", '--socket', "{$this->path}/s.sock"],
            [['file', '/dev/null', 'r'], $log, $log],
            $pipes,
        );
        $this->client = Client::connect("{$this->path}/s.sock", reconnectFor: 20.0);
    }

    /** Waits until a job has ended, and returns it. */
    public function end(string $id): array
    {
        for ($until = microtime(true) + 20; microtime(true) < $until; usleep(500)) {
            $job = $this->client->job($id);
            if (in_array($job['state'], ['done', 'failed', 'cancelled'], true)) {
                return $job;
            }
        }
        throw new Failure("still {$job['state']} after 20 s:\n" . file_get_contents("{$this->path}/log"));
    }

    public function log(): string
    {
        return file_get_contents("{$this->path}/log");
    }

    /** The number of runs of jobs with this body. */
    public function runs(string $body): int
    {
        return (int) @filesize("{$this->path}/runs-$body");
    }

    public function __destruct()
    {
        $this->client->close();
        proc_terminate($this->process);
        $until = microtime(true) + 20;
        while (proc_get_status($this->process)['running']) {
            microtime(true) < $until ? usleep(1000) : proc_terminate($this->process, SIGKILL);
        }
        array_map('unlink', glob("{$this->path}/*"));
        rmdir($this->path);
    }
}
