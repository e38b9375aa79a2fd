<?php

namespace App\Calls;

use Stoker\Task;

/** `orders.total`: adds up an order's lines. */
final class OrderTotal
{
    public function __invoke(Task $task): array
    {
        return ['total' => self::of($task->json()['lines'])];
    }

    /** @param list<array{price: int, count: int}> $lines */
    public static function of(array $lines): int
    {
        return array_sum(array_map(static fn (array $line) => $line['price'] * $line['count'], $lines));
    }
}
