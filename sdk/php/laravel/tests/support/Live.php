<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\Queue;
use Stoker\Client;

/** `stoker serve` with pools of resident workers and of queue:work, all with the tests' application. */
final class Live
{
    public readonly Client $client;
    public readonly Story $story;
    /** @var resource */
    private $process;
    private bool $terminated = false;

    public function __construct(private string $binary, public readonly Queue $queue)
    {
        $this->story = new Story();
        $storage = getenv('APP_STORAGE');
        $php = json_encode(PHP_BINARY, JSON_UNESCAPED_SLASHES);
        $here = json_encode(__DIR__, JSON_UNESCAPED_SLASHES);
        file_put_contents("$storage/stoker.toml", <<<TOML
            [pool.app]
            command = [$php, "worker.php"]
            directory = $here
            workers = 2
            crash_budget = 4
            kill_grace = "300ms"
            [pool.pop]
            command = [$php, "artisan.php", "queue:work", "live", "--queue=@pop", "--sleep=0", "--timeout=0", "--force", "--quiet"]
            directory = $here
            workers = 1
            crash_budget = 4
            kill_grace = "300ms"
            [pool.sandbox]
            command = [$php, "worker.php", "sandbox"]
            directory = $here
            workers = 1
            crash_budget = 2
            [pool.spare]
            command = [$php, "worker.php"]
            directory = $here
            strategy = "spare"
            workers = { min = 1, max = 2 }
            [pool.fork]
            command = [$php, "worker.php"]
            directory = $here
            strategy = "fork"
            workers = { min = 1, max = 2 }
            {$this->snapshot($here)}
            [pool.stock]
            protocol = false
            command = [$php, "artisan.php", "queue:work", "database", "--sleep=0.01", "--force", "--quiet"]
            directory = $here
            workers = 1
            [pool.heavy]
            protocol = false
            command = [$php, "artisan.php", "queue:work", "database", "--queue=heavy", "--sleep=0.01", "--memory=1", "--force", "--quiet"]
            directory = $here
            workers = 1
            [pool.by-hand]
            workers = 1
            stop_grace = "500ms"
            task_timeout = "1s"
            kill_grace = "300ms"
            [queue.default]
            pool = "app"
            backoff = ["0s"]
            [queue.sized]
            pool = "app"
            [queue.spared]
            pool = "spare"
            backoff = ["0s"]
            [queue.forked]
            pool = "fork"
            backoff = ["0s"]
            [queue.pop]
            pool = "pop"
            backoff = ["0s"]
            [queue.pops]
            pool = "pop"
            [queue.by-hand]
            pool = "by-hand"
            backoff = ["0s"]
            [queue.second]
            pool = "by-hand"
            [queue.sandboxed]
            pool = "sandbox"
            [service.tests]
            pool = "app"
            [site.shop]
            pool = "app"
            listen = ["127.0.0.1:0"]
            TOML);
        $log = fopen("$storage/stoker.log", 'a');
        $this->process = proc_open(
            [$binary, 'serve', '-c', "$storage/stoker.toml", '--socket', "$storage/stoker.sock"],
            [['file', '/dev/null', 'r'], $log, $log],
            $pipes,
        );
        register_shutdown_function(function (int $owner): void {
            getmypid() === $owner && proc_get_status($this->process)['running'] && $this->stop();
        }, getmypid());
        $this->client = Client::connect("$storage/stoker.sock", reconnectFor: 10.0);
    }

    /** Whether the PHP host has been built, which runs the pool `snapshot`. */
    public function hasHost(): bool
    {
        return is_executable(dirname($this->binary) . '/stoker-php');
    }

    private function snapshot(string $directory): string
    {
        return $this->hasHost() ? <<<TOML
            [pool.snapshot]
            command = ["worker.php"]
            directory = $directory
            strategy = "snapshot"
            workers = { min = 1, max = 2 }
            [queue.snapshots]
            pool = "snapshot"
            backoff = ["0s"]
            TOML : '';
    }

    /** Polls until a condition holds, for states that no event reports. Fails after 20 s. */
    public function until(callable $is, string $what): void
    {
        for ($end = microtime(true) + 20; ! $is(); usleep(1000)) {
            microtime(true) < $end or throw new \RuntimeException("$what: not after 20 s");
        }
    }

    /** Whether a process is among the workers. */
    public function hasWorker(int $pid): bool
    {
        return in_array($pid, array_column($this->client->workers(), 'pid'), true);
    }

    /** Waits until a job has ended for the server, and returns it. */
    public function end(string $id): array
    {
        $deadline = microtime(true) + 20;
        while (! in_array(($job = $this->client->job($id))['state'], ['done', 'failed', 'cancelled'], true)) {
            // When a job reports its end, its answer is already in flight, so this loop rarely runs twice.
            microtime(true) < $deadline ? usleep(1000) : throw new \RuntimeException("still {$job['state']} after 20 s");
        }

        return $job;
    }

    /**
     * Waits until all jobs that match a filter now have ended.
     *
     * @param array<string, string> $filter see Client::jobs()
     */
    public function endAll(array $filter): void
    {
        foreach ($this->client->jobs($filter) as $job) {
            $this->end($job['id']);
        }
    }

    /** Calls $push while the queue is paused, and returns its value. */
    public function held(string $queue, callable $push): mixed
    {
        $this->client->pause($queue);
        try {
            return $push();
        } finally {
            $this->client->resume($queue);
        }
    }

    /** Runs an artisan command of the application and returns its output. */
    public function artisan(string ...$arguments): string
    {
        $socket = getenv('APP_STORAGE') . '/stoker.sock';
        $process = proc_open(
            [PHP_BINARY, __DIR__ . '/artisan.php', ...$arguments],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], STDERR],
            $pipes,
            env_vars: ['STOKER_SOCKET' => $socket] + getenv(),
        );
        $printed = stream_get_contents($pipes[1]);
        proc_close($process);

        return $printed;
    }

    /** @return array{int, string} status and body of the answer of the site "shop" */
    public function get(string $path): array
    {
        $log = getenv('APP_STORAGE') . '/stoker.log';
        $this->until(static fn (): bool => str_contains(file_get_contents($log), 'gateway sites: listening on http://'), 'the site listens');
        preg_match('~gateway sites: listening on (http://[\d.:]+)~', file_get_contents($log), $found);
        $body = file_get_contents($found[1] . $path, false, stream_context_create(['http' => ['ignore_errors' => true, 'timeout' => 20]]));

        return [(int) explode(' ', $http_response_header[0])[1], $body];
    }

    public function reload(string $pool): void
    {
        $this->client->admin('pool', ['op' => 'reload', 'pool' => $pool], 30);
    }

    /** Sends TERM to the server, but only once, because a second signal would end it without a drain. */
    public function terminate(): void
    {
        $this->terminated || proc_terminate($this->process);
        $this->terminated = true;
    }

    /** Stops the server. True if it exited with code 0. */
    public function stop(): bool
    {
        $this->terminate();
        for ($deadline = microtime(true) + 15; ($status = proc_get_status($this->process))['running']; usleep(5000)) {
            microtime(true) < $deadline || proc_terminate($this->process, SIGKILL);
        }

        return $status['exitcode'] === 0;
    }
}
