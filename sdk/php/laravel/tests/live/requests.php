<?php

// Requests to a site, which the resident workers answer beside their jobs.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Live $live */
/** @var Story $story */

test('live: the resident workers answer the requests of a site', function () use ($live, $story): void {
    $pids = array_column(array_filter($live->client->workers(), static fn (array $one) => $one['pool'] === 'app'), 'pid');
    [$status, $body] = $live->get('/hello/ada');
    holds($status === 200 && preg_match('~^hello ada of (\d+) at http://127\.0\.0\.1:\d+$~D', $body, $found) === 1, "$status $body");
    holds(in_array((int) $found[1], $pids, true), "$found[1] is one of " . implode(', ', $pids));
    same([500, 404], [$live->get('/throw')[0], $live->get('/nothing')[0]]);
    $live->queue->push(new Scripted('beside', ['pid']));
    $story->await('beside end');
    // Printed between tasks, so it is in the log of the worker.
    $live->until(static fn (): bool => str_contains(file_get_contents(getenv('APP_STORAGE') . '/stoker.log'), 'after hello ada'), 'the end of the request');
});
