<?php

namespace App\Calls;

use Stoker\Task;

/** `orders.total`: adds up an order's lines. */
final class OrderTotal
{
    public function __invoke(Task $task): array
    {
        $lines = $task->json()['lines'];

        return ['total' => array_sum(array_map(static fn (array $line) => $line['price'] * $line['count'], $lines))];
    }
}
