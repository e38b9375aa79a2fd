<?php

namespace Demo;

use App\Jobs\SayHello;
use Illuminate\Contracts\Queue\Queue;

/** The two kinds of load that are compared: a full queue, and single jobs at random times. */
final class Load
{
    private static int $number = 0;

    /** Pushes jobs to a queue and returns the number of pushed jobs per second. */
    public static function backlog(Queue $queue, int $jobs): float
    {
        $start = hrtime(true);
        for ($left = $jobs; $left > 0; $left -= 100) {
            $queue->bulk(self::hellos(min(100, $left)));
        }

        return $jobs / ((hrtime(true) - $start) / 1e9);
    }

    /**
     * Pushes single jobs to idle workers, with random pauses of $min to $max seconds.
     *
     * @return list<int> nanoseconds from just before the push to the start of each job
     */
    public static function trickle(Queue $queue, Ledger $ledger, int $jobs, float $min, float $max): array
    {
        $before = $ledger->read()->ended();
        $ledger->waits = [];
        mt_srand(1);
        for ($i = 0; $i < $jobs; $i++) {
            usleep(mt_rand((int) ($min * 1e6), (int) ($max * 1e6)));
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
