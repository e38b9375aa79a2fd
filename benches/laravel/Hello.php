<?php

namespace Bench;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;

/** Records that it ran and does nothing else, so that only the queue's own cost is measured. */
final class Hello implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    /** @var resource|null */
    private static $ledger = null;

    public function __construct(public int $number)
    {
    }

    public function handle(): void
    {
        // Appends of this size are atomic, even with several writers.
        self::$ledger ??= fopen(getenv('BENCH_FOLDER') . '/ledger', 'ab');
        fwrite(self::$ledger, pack('JJ', $this->number, hrtime(true)));
    }
}
