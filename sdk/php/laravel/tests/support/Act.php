<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Bus\Batchable;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;

/** A job that runs a closure of the test and records its runs and failures. */
class Act implements ShouldQueue
{
    use Batchable;
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    /** @var list<int> the value of attempts() in each run */
    public static array $runs = [];
    /** @var list<?\Throwable> the exceptions that were passed to failed() */
    public static array $failures = [];
    /** Code of handle(). Static, because closures cannot be serialized in a job; the worker runs in the same process. */
    public static ?\Closure $does = null;
    public static ?\Closure $failing = null;

    public $tries;
    public $backoff;
    public $timeout;
    public $maxExceptions;
    public $retryUntil;
    public $failOnTimeout = false;

    public function __construct(array $settings = [])
    {
        foreach ($settings as $name => $value) {
            $this->$name = $value;
        }
    }

    public static function reset(?\Closure $does = null): void
    {
        self::$runs = self::$failures = [];
        self::$does = $does;
        self::$failing = null;
    }

    public function handle(): void
    {
        self::$runs[] = $this->attempts();
        self::$does !== null && (self::$does)($this);
    }

    public function failed(?\Throwable $e): void
    {
        self::$failures[] = $e;
        self::$failing !== null && (self::$failing)();
    }
}
