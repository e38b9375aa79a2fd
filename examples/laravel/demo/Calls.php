<?php

namespace Demo;

use Stoker\{Client, ConnectionLost, ConnectionRefused, Unavailable};

/** Calls `orders.total` in batches and checks the answers. */
final class Calls
{
    private const BATCH = 32;

    public int $right = 0;
    public int $wrong = 0;
    public int $again = 0;

    public function __construct(private Client $client)
    {
    }

    public function batch(): void
    {
        $calls = $totals = [];
        for ($i = 0; $i < self::BATCH; $i++) {
            $lines = [['price' => mt_rand(1, 100), 'count' => mt_rand(1, 9)], ['price' => 5, 'count' => 2]];
            $calls[] = ['orders.total', ['lines' => $lines]];
            $totals[] = $lines[0]['price'] * $lines[0]['count'] + 10;
        }
        foreach ($this->client->callAll($calls, throw: false) as $i => $answer) {
            if ($answer instanceof ConnectionLost || $answer instanceof ConnectionRefused || $answer instanceof Unavailable) {
                // The server was killed; the call is repeated later.
                $this->again++;
                continue;
            }
            is_array($answer) && $answer['total'] === $totals[$i] ? $this->right++ : $this->wrong++;
        }
    }

    public function made(): int
    {
        return $this->right + $this->wrong;
    }

}
