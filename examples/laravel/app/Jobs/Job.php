<?php

namespace App\Jobs;

use App\Ledger;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;
use Throwable;

/** Base class of the example's jobs. It records in the ledger when a job starts, ends and fails. */
abstract class Job implements ShouldQueue
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    /** hrtime() in nanoseconds, a monotonic clock that all processes of a machine share. */
    private int $pushedAt;

    public function __construct(public int $number)
    {
        $this->pushedAt = hrtime(true);
    }

    public function handle(Ledger $ledger): void
    {
        $due = $this->pushedAt + (int) $this->delay * 1_000_000_000;
        $ledger->write('run', static::class, $this->number, $this->attempts(), hrtime(true) - $due);
        $this->work();
        if (! $this->job?->isReleased()) {
            $ledger->write('done', static::class, $this->number, $this->attempts());
        }
    }

    public function failed(?Throwable $e): void
    {
        app(Ledger::class)->write('failed', static::class, $this->number);
    }

    abstract protected function work(): void;
}
