<?php

// What a request does that shows whether the next one is isolated from it. Without a probe the answer is "Hello world".

declare(strict_types=1);

namespace Lab;

final class Left
{
    public static mixed $value = null;
    public static string $memory = '';
    /** @var resource|null */
    public static $connection = null;
}

/** Counts its calls in a static variable. */
function calls(): int
{
    static $calls = 0;

    return ++$calls;
}

/** @param array<string, string> $query */
function answer(array $query): string
{
    return match ($query['probe'] ?? '') {
        'leave' => leave($query['address']),
        'look' => look($query['address']),
        'wait' => wait($query['address']),
        'crash' => crash(),
        default => 'Hello world',
    };
}

/** Leaves something of each kind behind. */
function leave(string $address): string
{
    $memory = memory_get_usage();
    $GLOBALS['lab_left'] = true;
    Left::$value = true;
    calls();
    define('LAB_LEFT', true);
    ini_set('precision', '5');
    Left::$memory = str_repeat('x', 8 << 20);
    Left::$connection = stream_socket_client("tcp://$address");
    fwrite(Left::$connection, "plain\n");
    [$host, $port] = explode(':', $address);
    fwrite(pfsockopen($host, (int) $port), "persistent\n");

    return json_encode(['memory' => $memory]);
}

/** Reports what is left of an earlier request, and connects again. */
function look(string $address): string
{
    [$host, $port] = explode(':', $address);
    $left = [
        'globals' => isset($GLOBALS['lab_left']),
        'statics' => Left::$value !== null || calls() > 1,
        'constants' => defined('LAB_LEFT'),
        'settings' => ini_get('precision') === '5',
        'memory' => memory_get_usage(),
    ];
    fwrite(pfsockopen($host, (int) $port), "again\n");

    return json_encode($left);
}

/** Reports that it runs, and waits until it may end. */
function wait(string $address): string
{
    $connection = stream_socket_client("tcp://$address");
    fwrite($connection, "begun\n");
    fgets($connection);

    return 'waited';
}

/** Kills its own process. */
function crash(): string
{
    if (!function_exists('posix_kill')) {
        return 'this PHP lacks the extension posix';
    }
    posix_kill(getmypid(), 9);

    return 'alive';
}
