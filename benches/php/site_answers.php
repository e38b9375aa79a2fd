<?php

// What both sides of benches/harness/sites.py answer: the body for a path, and its type.

const MEGABYTE = 1 << 20;

function answer_to(string $path): string
{
    static $megabyte = null;

    return match ($path) {
        '/megabyte' => $megabyte ??= str_repeat('0123456789abcdef', MEGABYTE / 16),
        default => 'Hello world',
    };
}
