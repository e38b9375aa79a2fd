<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Bus\Batchable;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Support\Facades\DB;
use Symfony\Component\Console\Output\NullOutput;

/** A job for real workers. In each run it performs the next step of its script, and reports what happens to Story. */
class Scripted implements ShouldQueue
{
    use Batchable;
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    public $tries;
    public $timeout;
    public $failOnTimeout = false;
    public $maxExceptions;
    public $backoff;
    public $retryUntil;

    /**
     * @param string       $name           name of the job in reports
     * @param list<string> $script         the step of each run; later runs use "done"
     * @param int          $deadlyFailures number of calls of failed() in which the worker kills itself
     */
    public function __construct(
        protected string $name,
        private array $script,
        ?int $tries = null,
        ?int $timeout = null,
        bool $failOnTimeout = false,
        private int $deadlyFailures = 0,
    ) {
        $this->connection = 'live';
        $this->tries = $tries;
        $this->timeout = $timeout;
        $this->failOnTimeout = $failOnTimeout;
    }

    /** Sets properties that Laravel reads. */
    public function with(mixed ...$own): static
    {
        foreach ($own as $property => $value) {
            $this->$property = $value;
        }

        return $this;
    }

    public function handle(): void
    {
        // The runs are counted in a file, because runs in which the process died count too.
        $run = Story::count($this->name);
        Story::tell("$this->name run {$this->attempts()}");
        [$what, $argument] = explode(' ', $this->script[$run - 1] ?? 'done', 2) + [1 => ''];
        match ($what) {
            'done' => null,
            'throw' => throw new \DomainException('as scripted'),
            'exit' => exit(7),
            'kill' => posix_kill(getmypid(), SIGKILL),
            'memory' => $this->exhaust(),
            'release' => $this->release((int) $argument),
            'fail' => $this->fail(new \LogicException('as scripted')),
            'hang' => $this->hang(),
            'curl' => $this->ask($argument),
            'locked' => $this->write($argument),
            'regex' => $this->backtrack(),
            'push' => self::dispatch($argument, [])->onConnection('stoker'),
            'delete' => $this->deleteAndDie(),
            'transaction' => DB::beginTransaction(),
            'level' => Story::tell("$this->name level " . DB::transactionLevel()),
            'where' => Story::tell("$this->name is {$this->job->getQueue()} {$this->job->getConnectionName()}"),
            'pid' => Story::tell("$this->name pid " . getmypid()),
            'booted' => Story::tell("$this->name booted " . BOOTED),
            'await' => $this->await($argument),
            'lost' => $this->loseDatabase(),
            'pause' => posix_kill(getmypid(), SIGUSR2), // Operators pause queue:work in this way.
            'work' => app(Kernel::class)->call('queue:work', ['connection' => 'live', '--queue' => $argument, '--once' => true, '--sleep' => 0], new NullOutput()),
            'bind' => $this->bind(),
            'import' => $this->import(),
        };
        Story::tell("$this->name end");
    }

    public function failed(?\Throwable $e): void
    {
        Story::tell("$this->name failed " . class_basename($e));
        if ($this->deadlyFailures >= Story::count("$this->name-failed")) {
            posix_kill(getmypid(), SIGKILL);
        }
    }

    private function hang(): void
    {
        while (true) {
            usleep(10_000);
        }
    }

    /** Blocks in curl, which has no timeout by default. */
    private function ask(string $address): void
    {
        $curl = curl_init("http://$address/");
        curl_setopt($curl, CURLOPT_PROXY, ''); // Ignore a proxy that the environment sets.
        curl_exec($curl);
    }

    /** Blocks in SQLite, which a signal handler of PHP cannot interrupt. */
    private function write(string $database): void
    {
        (new \PDO("sqlite:$database", options: [\PDO::ATTR_TIMEOUT => 60]))->exec('CREATE TABLE never (id INT)');
    }

    private function backtrack(): void
    {
        ini_set('pcre.jit', '0');
        ini_set('pcre.backtrack_limit', (string) PHP_INT_MAX);
        preg_match('/^(a+)+$/', str_repeat('a', 60) . 'b');
    }

    private function loseDatabase(): void
    {
        Story::tell("$this->name pid " . getmypid());
        throw new \Exception('server has gone away');
    }

    private function exhaust(): void
    {
        ini_set('memory_limit', '64M');
        for ($all = []; ; $all[] = str_repeat('m', 1 << 20));
    }

    private function deleteAndDie(): void
    {
        $this->delete();
        posix_kill(getmypid(), SIGKILL);
    }

    /** Waits until the test has created the file, at most 20 seconds. */
    private function await(string $file): void
    {
        for ($until = microtime(true) + 20; ! file_exists($file) && microtime(true) < $until; usleep(1000)) {
            clearstatcache();
        }
    }

    /** Dies at the third page, continues there in the next run, and acknowledges the job before it dies again. */
    private function import(): void
    {
        $task = $this->job->task();
        for ($page = (int) $task->checkpointed(); $page < 3; $page++) {
            Story::tell("$this->name page $page");
            $page === 2 && $task->crashes() === 0 && posix_kill(getmypid(), SIGKILL);
            $task->checkpoint((string) ($page + 1));
            $task->progress(100 * ($page + 1) / 3, "page $page");
        }
        $task->ack();
        posix_kill(getmypid(), SIGKILL);
    }

    public function stoker(): array
    {
        return ['key' => "tenant of $this->name", 'priority' => 2, 'keepResult' => 77];
    }

    private function bind(): void
    {
        Story::tell("$this->name finds " . json_encode(app()->bound('tests.bound')));
        app()->instance('tests.bound', true);
    }
}
