<?php

namespace Demo;

use App\Jobs\{ChargeCard, ImportLegacyFeed, RefundOrder, RenderReport, SayHello, SyncStock};
use Illuminate\Support\Facades\Queue;
use Stoker\StokerException;
use Throwable;

/** A day in the life of the application: what is pushed, and how each kind must end. */
final class Mix
{
    private const HELLOS = 10_000;
    private const DELAYED = 600;
    private const CARDS = 1000;
    private const SYNCS = 500;
    private const REPORTS = 20;
    private const REFUNDS = 50;
    private const FEEDS = 5;

    /** How many of each kind. */
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
        // The usual ways: in bulk, one by one, on another queue, later.
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

    /** The broker is killed and started again meanwhile; a producer that was told that it is away tries again. */
    private static function insist(callable $push): void
    {
        // Laravel dispatches when what dispatch() returned is dropped: that must happen in here.
        $now = static function () use ($push): void {
            $push();
        };
        retry(200, $now, 50, static fn (Throwable $e) => $e instanceof StokerException);
    }
}
