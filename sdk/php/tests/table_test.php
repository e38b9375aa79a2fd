<?php

// What the SDK's workers do, row by row of sdk/conformance/worker.json, which the simulation of the server runs too.

declare(strict_types=1);

namespace Stoker\Tests;

/** Lives of workers, drawn: at least so many, and until each row has been used. */
function walks(string $part, Table $table, bool ...$dialled): void
{
    for ($life = 0; $life < 60 || $life < 1000 && $table->unused() !== []; $life++) {
        mt_srand($life);
        (new Walk($part, $table, $dialled[$life % count($dialled)]))->go(60);
        Processes::endAll();
    }
    same([], $table->unused(), 'rows that never happened');
}

test('table: a worker sends what the table says, whatever happens to it', function (): void {
    walks('runs', new Table('runs'), false, true);
});

test('table: an inbox sends what the table says, whatever happens to it', function (): void {
    walks('pulls', new Table('pulls'), true);
});

test('table: an id that is used again is another task', function (): void {
    $table = json_decode(file_get_contents(__DIR__ . '/../../conformance/worker.json'), true, 512, JSON_THROW_ON_ERROR);
    foreach ($table['reused'] as $vector) {
        $probe = (new Probe(['echo']))->welcome();
        foreach ($vector['steps'] as $step) {
            isset($step['to']) && $probe->send(hex2bin(implode('', $step['to'])));
            foreach ($step['from'] ?? [] as $hex) {
                $answer = $probe->next();
                $answer->ttl = 0; // How long it took.
                same($hex, bin2hex($answer->encode()), $vector['name']);
            }
        }
    }
});
