<?php

// Warms up before its processes are forked, and connects in each of them.

declare(strict_types=1);

require __DIR__ . '/serve.php';

$state = (object) ['warm' => 0, 'connected' => null];
Stoker\beforeFork(static function () use ($state): void {
    echo "warming up\n";
    $state->warm++;
});
Stoker\afterFork(static function () use ($state): void {
    echo "connected\n";
    $state->connected = getmypid();
});
serve(static fn (): string => "warm $state->warm, " . ($state->connected === getmypid() ? 'connected' : 'not connected'));
