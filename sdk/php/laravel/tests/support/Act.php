<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Bus\Batchable;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;

/** A job that does what a test tells it to, and remembers what became of it. */
class Act implements ShouldQueue
{
    use Batchable;
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    /** @var list<int> what attempts() said, run by run */
    public static array $runs = [];
    /** @var list<?\Throwable> what failed() was given */
    public static array $failures = [];
    /** Closures can't travel in a job; tests and worker are one process here. */
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
