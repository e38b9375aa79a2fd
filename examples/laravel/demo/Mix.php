<?php

namespace Demo;

use App\Jobs\{ChargeCard, ImportLegacyFeed, RefundOrder, RenderReport, SayHello, SyncStock};
use Illuminate\Support\Facades\Queue;
use Stoker\StokerException;
use Throwable;

/** The mixed load of the demo: the jobs that are pushed, and how each kind must end. */
final class Mix
{
    private const HELLOS = 10_000;
    private const DELAYED = 600;
    private const CARDS = 1000;
    private const SYNCS = 500;
    private const REPORTS = 20;
    private const REFUNDS = 50;
    private const FEEDS = 5;

    /** Number of jobs of each kind. */
    public const KINDS = [
        'SayHello' => self::HELLOS + self::DELAYED,
        'ChargeCard' => self::CARDS,
        'SyncStock' => self::SYNCS,
        'RenderReport' => self::REPORTS,
        'RefundOrder' => self::REFUNDS,
        'ImportLegacyFeed' => self::FEEDS,
    ];

    public static function push(): void
    {
        // Push in the usual ways: in bulk, one at a time, to another queue, with a delay.
        for ($i = 0; $i < self::HELLOS; $i += 100) {
            $jobs = array_map(static fn (int $n) => new SayHello($n), range($i, $i + 99));
            self::insist(static fn () => Queue::bulk($jobs, '', 'default'));
        }
        self::each(self::DELAYED, static fn (int $n) => SayHello::dispatch(self::HELLOS + $n)->delay(1 + $n % 3));
        self::each(self::CARDS, static fn (int $n) => ChargeCard::dispatch($n)->onQueue('payments'));
        self::each(self::REFUNDS, static fn (int $n) => RefundOrder::dispatch($n)->onQueue('payments'));
        self::each(self::SYNCS, static fn (int $n) => SyncStock::dispatch($n));
        self::each(self::REPORTS, static fn (int $n) => RenderReport::dispatch($n)->onQueue('reports'));
        self::each(self::FEEDS, static fn (int $n) => ImportLegacyFeed::dispatch($n)->onQueue('reports'));
    }

    public static function jobs(): int
    {
        return array_sum(self::KINDS);
    }

    private static function each(int $count, callable $push): void
    {
        for ($i = 0; $i < $count; $i++) {
            self::insist(static fn () => $push($i));
        }
    }

    /** Retries a push that fails because the server was killed and has not restarted yet. */
    private static function insist(callable $push): void
    {
        // Laravel pushes the job when the return value of dispatch() is destroyed, which must happen inside this
        // closure.
        $now = static function () use ($push): void {
            $push();
        };
        retry(200, $now, 50, static fn (Throwable $e) => $e instanceof StokerException);
    }
}
