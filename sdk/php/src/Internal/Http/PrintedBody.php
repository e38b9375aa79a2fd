<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

/** The body of a response that is printed, for example by Symfony's StreamedResponse. @internal */
final class PrintedBody implements \IteratorAggregate
{
    /** @param \Closure(): mixed $print prints the body */
    public function __construct(private \Closure $print)
    {
    }

    /** Passes on what is printed, each piece at once. An exception of $write is thrown in the code that prints. */
    public function printTo(callable $write): void
    {
        $level = ob_get_level();
        // With chunk size 1, PHP passes each echo to the callback at once.
        ob_start(static function (string $bytes, int $phase) use ($write): string {
            // After an exception, what is still in buffers is dropped with this flag.
            $bytes === '' || $phase & PHP_OUTPUT_HANDLER_CLEAN || $write($bytes);

            return '';
        }, 1);
        try {
            ($this->print)();
            self::close($level, ob_end_flush(...));
        } finally {
            self::close($level, ob_end_clean(...));
        }
    }

    /** The whole body, as one piece. */
    public function getIterator(): \Iterator
    {
        yield SymfonyResult::capture($this->print);
    }

    /** Closes the buffers above a level; those that the code has opened, too. */
    private static function close(int $level, callable $close): void
    {
        while (ob_get_level() > $level) {
            $close();
        }
    }
}
