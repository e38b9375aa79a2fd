<?php

namespace Demo;

use App\Jobs\SayHello;
use Illuminate\Contracts\Queue\Queue;

/** The two shapes of load that are compared: a full queue, and one job now and then. */
final class Load
{
    private static int $number = 0;

    /** Fills a queue; returns jobs pushed per second. */
    public static function backlog(Queue $queue, int $jobs): float
    {
        $start = hrtime(true);
        for ($left = $jobs; $left > 0; $left -= 100) {
            $queue->bulk(self::hellos(min(100, $left)));
        }

        return $jobs / ((hrtime(true) - $start) / 1e9);
    }

    /**
     * Pushes single jobs at random moments to idle workers.
     *
     * @return list<int> nanoseconds from before the push to the start of each
     */
    public static function trickle(Queue $queue, Ledger $ledger, int $jobs, float $least, float $most): array
    {
        $before = $ledger->read()->ended();
        $ledger->waits = [];
        mt_srand(1);
        for ($i = 0; $i < $jobs; $i++) {
            usleep(mt_rand((int) ($least * 1e6), (int) ($most * 1e6)));
            $queue->push(self::hellos(1)[0]);
        }
        if (! $ledger->await($before + $jobs, 20)) {
            throw new \RuntimeException('Not all of the single jobs were run in 20 seconds');
        }

        return $ledger->waits;
    }

    /** @return list<SayHello> */
    private static function hellos(int $count): array
    {
        return array_map(static fn () => new SayHello(++self::$number), range(1, $count));
    }
}
