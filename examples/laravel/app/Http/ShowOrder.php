<?php

namespace App\Http;

use App\Calls\OrderTotal;
use Illuminate\Http\Request;

/** `GET /orders/{number}`: an order with its total. */
final class ShowOrder
{
    public function __invoke(Request $request, int $number): array
    {
        $lines = [['price' => $number % 100, 'count' => 3], ['price' => 5, 'count' => 2]];

        return ['number' => $number, 'total' => OrderTotal::of($lines), 'client' => $request->ip(), 'url' => url()->current()];
    }
}
