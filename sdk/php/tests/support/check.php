<?php

declare(strict_types=1);

namespace Stoker\Tests;

final class Failure extends \Exception
{
}

/** @return array<string, \Closure> all tests, by name; with arguments, a test is added first */
function tests(?string $name = null, ?\Closure $run = null): array
{
    static $tests = [];
    if ($name !== null) {
        isset($tests[$name]) and throw new \LogicException("two tests are called $name");
        $tests[$name] = $run;
    }

    return $tests;
}

function test(string $name, \Closure $run): void
{
    tests($name, $run);
}

function same(mixed $want, mixed $got, string $what = 'value'): void
{
    if ($want !== $got) {
        $show = static fn (mixed $v): string => mb_strimwidth(str_replace("\n", ' ', var_export($v, true)), 0, 600, '…');
        throw new Failure("$what: want {$show($want)}, got {$show($got)}");
    }
}

function holds(bool $true, string $what): void
{
    $true or throw new Failure($what);
}

/**
 * Runs code that must throw an exception of a class, and returns the exception.
 *
 * @template T of \Throwable
 * @param class-string<T> $class
 * @return T
 */
function throws(string $class, \Closure $run): \Throwable
{
    try {
        $run();
    } catch (\Throwable $e) {
        $e instanceof $class or throw new Failure("want $class, got " . $e::class . ': ' . $e->getMessage());

        return $e;
    }
    throw new Failure("want $class, nothing was thrown");
}
