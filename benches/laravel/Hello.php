<?php

namespace Bench;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;

/** Writes down that it ran, and nothing else: what is left is the queue's own cost. */
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
        // Appended lines of this size are written whole, whoever writes.
        self::$ledger ??= fopen(getenv('BENCH_FOLDER') . '/ledger', 'ab');
        fwrite(self::$ledger, pack('JJ', $this->number, hrtime(true)));
    }
}
