<?php

declare(strict_types=1);

namespace Stoker\Internal;

/** Builds the last words that a process sends when it dies in a task: the JSON body of an event. @internal */
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

    /** The fatal error that has ended the process; null if there was none. */
    public static function ofFatalError(): ?string
    {
        $error = error_get_last();
        if ($error === null || !isset(self::FATAL[$error['type']])) {
            return null;
        }

        return self::json(self::FATAL[$error['type']], substr($error['message'], 0, self::MAX_MESSAGE), $error['file'], $error['line']);
    }

    /**
     * @param string $name      name of a task that was taken from an Inbox
     * @param bool   $isDropped whether the Inbox was destroyed, because of exit() or because it is no longer referenced
     */
    public static function ofExit(string $name, bool $isDropped): string
    {
        return self::json('exit', "exit() or die() was called while $name ran" . ($isDropped ? ', or its Inbox was destroyed' : ''), '', 0);
    }

    private static function json(string $class, string $message, string $file, int $line): string
    {
        $words = ['class' => $class, 'message' => $message, 'file' => $file, 'line' => $line];

        return (string) json_encode($words, JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_UNESCAPED_SLASHES);
    }
}
