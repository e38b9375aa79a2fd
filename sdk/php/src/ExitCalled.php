<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Internal\Http\Handler;

/** Why a task failed whose handler called exit() or die(). It is never thrown, because exit() ends the process. */
final class ExitCalled extends \RuntimeException
{
    /** @internal */
    public static function in(string $task, callable $handler): self
    {
        $e = new self("exit() or die() was called while $task ran, which ends the worker: return or throw instead. Place: the start of its handler");
        // In a shutdown function PHP does not report where exit() was called. The start of the handler is a hint.
        $handler = $handler instanceof Handler ? $handler->application() : $handler;
        $code = new \ReflectionFunction($handler(...));
        [$e->file, $e->line] = [(string) $code->getFileName(), (int) $code->getStartLine()];

        return $e;
    }
}
