<?php

declare(strict_types=1);

namespace Stoker\Internal;

/** Builds the last words that a process sends when it dies in a task. @internal */
final class LastWords
{
    private const FATAL = [
        E_ERROR => 'E_ERROR',
        E_PARSE => 'E_PARSE',
        E_CORE_ERROR => 'E_CORE_ERROR',
        E_COMPILE_ERROR => 'E_COMPILE_ERROR',
        E_USER_ERROR => 'E_USER_ERROR',
        E_RECOVERABLE_ERROR => 'E_RECOVERABLE_ERROR',
    ];
    /** Maximum size of the error message, in bytes. */
    private const MAX_MESSAGE = 8192;

    /**
     * The JSON body of a last words event. It describes the fatal error or, if there was none, reports a call of exit().
     *
     * @param string        $name      name of the task
     * @param callable|null $handler   handler of the task; null if the task was taken from an Inbox
     * @param bool          $isDropped whether the Inbox was destroyed, because of exit() or because it is not referenced
     *                                 any more
     */
    public static function json(string $name, ?callable $handler, bool $isDropped): string
    {
        $error = error_get_last();
        if ($error !== null && isset(self::FATAL[$error['type']])) {
            $words = [
                'class' => self::FATAL[$error['type']],
                'message' => substr($error['message'], 0, self::MAX_MESSAGE),
                'file' => $error['file'],
                'line' => $error['line'],
            ];
        } else {
            // In a shutdown function PHP does not tell where exit() was called. The start of the handler is a hint.
            $code = $handler === null ? null : new \ReflectionFunction($handler(...));
            $words = [
                'class' => 'exit',
                'message' => "exit() or die() was called while $name ran"
                    . ($isDropped ? ', or its Inbox was destroyed' : '')
                    . ($code === null ? '' : '; file and line are the start of its handler'),
                'file' => (string) $code?->getFileName(),
                'line' => (int) $code?->getStartLine(),
            ];
        }

        return (string) json_encode($words, JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_UNESCAPED_SLASHES);
    }
}
