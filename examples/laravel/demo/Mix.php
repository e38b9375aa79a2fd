<?php

namespace Demo;

use App\Jobs\{ChargeCard, ImportLegacyFeed, RefundOrder, RenderReport, SayHello, SyncStock};
use Illuminate\Support\Facades\Queue;

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
            Queue::bulk(array_map(static fn (int $n) => new SayHello($n), range($i, $i + 99)), '', 'default');
        }
        for ($i = 0; $i < self::DELAYED; $i++) {
            SayHello::dispatch(self::HELLOS + $i)->delay(1 + $i % 3);
        }
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
            $push($i);
        }
    }
}
