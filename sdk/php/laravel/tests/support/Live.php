<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\Queue;
use Stoker\Client;

/** `stoker serve` with two resident workers of the tests' application. */
final class Live
{
    public readonly Client $client;
    public readonly Story $story;
    /** @var resource */
    private $process;

    public function __construct(string $binary, public readonly Queue $queue)
    {
        $this->story = new Story();
        $storage = getenv('APP_STORAGE');
        $command = json_encode([PHP_BINARY, __DIR__ . '/worker.php'], JSON_UNESCAPED_SLASHES);
        file_put_contents("$storage/stoker.toml", "[pool.app]\ncommand = $command\nworkers = 2\ncrash_budget = 4\n[queue.sized]\n");
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

    /** Waits until the broker has heard how a job ended, and returns what it then says of it. */
    public function end(string $id): array
    {
        $deadline = microtime(true) + 10;
        while (! in_array(($job = $this->client->job($id))['state'], ['done', 'failed', 'cancelled'], true)) {
            // The answer is on its way already when the job has told its end: this is rarely gone through twice.
            microtime(true) < $deadline ? usleep(1000) : throw new \RuntimeException("still {$job['state']} after 10 s");
        }

        return $job;
    }

    /** True when it drained and ended well. */
    public function stop(): bool
    {
        proc_terminate($this->process);
        for ($deadline = microtime(true) + 15; ($status = proc_get_status($this->process))['running']; usleep(5000)) {
            microtime(true) < $deadline || proc_terminate($this->process, SIGKILL);
        }

        return $status['exitcode'] === 0;
    }
}
