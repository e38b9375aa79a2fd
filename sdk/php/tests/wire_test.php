<?php

// Tests encoding and decoding of frames against the golden vectors in sdk/conformance.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\WireError;

/** Faults that only the server must detect: sdk/conformance/README.md. */
const SERVER_ONLY = [
    'bad_meta_value', 'bad_id', 'bad_name', 'bad_hello', 'bad_slots', 'no_common_version', 'bad_ready', 'not_zero', 'no_credit',
];

function vectors(string $list): mixed
{
    static $all;
    $all ??= json_decode(file_get_contents(__DIR__ . '/../../conformance/frames.json'), true, 512, JSON_THROW_ON_ERROR);

    return $all[$list];
}

/** @return array{string, array<string, mixed>} the bytes of a vector, and the expected properties of its Frame */
function expand(array $vector): array
{
    $frame = $vector['frame'];
    $bytes = hex2bin($vector['hex']);
    if (isset($frame['body_repeat'])) {
        $body = str_repeat(hex2bin($frame['body_repeat'][0]), $frame['body_repeat'][1]);
        $bytes .= $body;
    } else {
        $body = hex2bin($frame['body_hex']);
    }
    $meta = [];
    foreach ($frame['meta'] as [$key, $hex]) {
        $meta[$key] = hex2bin($hex);
    }
    unset($frame['body_hex'], $frame['body_repeat']);

    return [$bytes, ['meta' => $meta, 'body' => $body] + $frame];
}

/** Feeds the pieces to a reader and returns the one frame, with its metadata decoded. */
function read(iterable $pieces): array
{
    $reader = new FrameReader();
    $frames = [];
    foreach ($pieces as $piece) {
        same([], $frames, 'frames before the last byte');
        $frames = $reader->feed($piece);
    }
    same(1, count($frames), 'frames');

    return ['meta' => Meta::decode($frames[0]->meta)] + (array) $frames[0];
}

function alike(array $want, array $got, string $name): void
{
    ksort($want);
    ksort($got);
    same($want, $got, $name);
}

test('wire: valid vectors are encoded to the same bytes', function (): void {
    foreach (vectors('valid') as $vector) {
        [$bytes, $fields] = expand($vector);
        $fields['meta'] = Meta::encode($fields['meta']);
        holds($bytes === Frame::of(...$fields)->encode(), $vector['name']);
    }
});

test('wire: valid vectors are read, whole and byte by byte', function (): void {
    foreach ([...vectors('valid'), ...vectors('decode_only')] as $vector) {
        [$bytes, $fields] = expand($vector);
        alike($fields, read([$bytes]), $vector['name']);
        if (strlen($bytes) < 100_000) {
            alike($fields, read(str_split($bytes)), $vector['name'] . ' in bytes');
        }
    }
});

test('wire: two frames split at each byte', function (): void {
    $one = Frame::of(1, 8, 1, 3, 7, 1000, 2, 'a.b', Meta::encode([5 => 'tenant', 130 => str_repeat('v', 300)]), '{"x":1}')->encode();
    $both = $one . Frame::of(2, id: 9, body: 'done')->encode();
    for ($cut = 0; $cut <= strlen($both); $cut++) {
        $reader = new FrameReader();
        $names = [];
        foreach ([substr($both, 0, $cut), substr($both, $cut)] as $half) {
            foreach ($reader->feed($half) as $frame) {
                $names[] = $frame->encode();
            }
        }
        holds(implode('', $names) === $both && !$reader->isInsideFrame(), "cut at $cut");
    }
});

test('wire: many frames in reads of every size', function (): void {
    mt_srand(7);
    for ($round = 0; $round < 200; $round++) {
        $bytes = '';
        for ($i = 0; $i < 20; $i++) {
            $bytes .= Frame::of(1, id: $i + 1, name: 'q', body: str_repeat('b', mt_rand(0, 1) ? mt_rand(0, 40) : mt_rand(0, 3000)))->encode();
        }
        $reader = new FrameReader();
        $again = '';
        for ($at = 0; $at < strlen($bytes); $at += $step) {
            $step = mt_rand(1, 700);
            foreach ($reader->feed(substr($bytes, $at, $step)) as $frame) {
                $again .= $frame->encode();
            }
        }
        holds($again === $bytes, "round $round");
    }
});

test('wire: invalid vectors are rejected, whole and byte by byte', function (): void {
    foreach (vectors('invalid') as $vector) {
        if (in_array($vector['error'], SERVER_ONLY, true)) {
            continue;
        }
        try {
            throws(WireError::class, fn () => read([hex2bin($vector['hex'])]));
            throws(WireError::class, fn () => read(str_split(hex2bin($vector['hex']))));
        } catch (Failure $e) {
            throw new Failure($vector['name'] . ': ' . $e->getMessage());
        }
    }
});

test('wire: invalid metadata is rejected', function (): void {
    throws(WireError::class, fn () => Meta::encode([0 => 'x']));
    throws(WireError::class, fn () => Meta::encode([255 => 'x']));
    throws(WireError::class, fn () => Meta::encode([5 => str_repeat('x', 65536)]));
    same([5 => str_repeat('x', 65531)], Meta::decode(Meta::encode([5 => str_repeat('x', 65531)])));
});

// Issue 9, A13.
test('wire: the keys match the vectors, and CRITICAL frames are checked against them', function (): void {
    $constants = (new \ReflectionClass(Key::class))->getConstants();
    unset($constants['LAST'], $constants['YOURS']);
    same(array_column(vectors('keys'), 0), array_values($constants));
    same([max($constants), vectors('yours')], [Key::LAST, Key::YOURS]);
    foreach (vectors('critical') as $vector) {
        $frame = (new FrameReader())->feed(hex2bin($vector['hex']))[0];
        holds(($frame->flags & Flag::CRITICAL) !== 0, $vector['name']);
        same($vector['unknown'], Meta::unknown($frame->meta), $vector['name']);
    }
});
