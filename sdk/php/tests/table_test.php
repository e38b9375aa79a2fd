<?php

// Tests the SDK's workers against each row of sdk/conformance/worker.json, which the workers of the simulation follow
// too.

declare(strict_types=1);

namespace Stoker\Tests;

/** Runs random workers: at least 60, and then up to 1000 until each row has been used. */
function walks(string $part, Table $table, bool ...$connected): void
{
    for ($life = 0; $life < 60 || $life < 1000 && $table->unused() !== []; $life++) {
        mt_srand($life);
        (new Walk($part, $table, $connected[$life % count($connected)]))->go(60);
        Processes::endAll();
    }
    same([], $table->unused(), 'rows that never happened');
}

test('table: a worker sends the frames of the table for random events', function (): void {
    walks('runs', new Table('runs'), false, true);
});

test('table: an inbox sends the frames of the table for random events', function (): void {
    walks('pulls', new Table('pulls'), true);
});

test('table: a reused id is another task', function (): void {
    $table = json_decode(file_get_contents(__DIR__ . '/../../conformance/worker.json'), true, 512, JSON_THROW_ON_ERROR);
    foreach ($table['reused'] as $vector) {
        $probe = (new Probe(['echo']))->welcome();
        foreach ($vector['steps'] as $step) {
            isset($step['to']) && $probe->send(hex2bin(implode('', $step['to'])));
            foreach ($step['from'] ?? [] as $hex) {
                $answer = $probe->next();
                $answer->ttl = 0; // The duration varies.
                same($hex, bin2hex($answer->encode()), $vector['name']);
            }
        }
    }
});
