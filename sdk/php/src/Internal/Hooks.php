<?php

declare(strict_types=1);

namespace Stoker\Internal;

/** Functions of the application that run around forks. @internal */
final class Hooks
{
    /** @var list<callable(): mixed> run once, before the first fork */
    public static array $beforeFork = [];
    /** @var list<callable(): mixed> run in each forked process */
    public static array $afterFork = [];

    /** @param list<callable(): mixed> $hooks */
    public static function run(array $hooks): void
    {
        foreach ($hooks as $hook) {
            $hook();
        }
    }
}
