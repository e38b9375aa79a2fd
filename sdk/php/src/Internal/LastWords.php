<?php

declare(strict_types=1);

namespace Stoker\Internal;

/** What a process that dies in a task can still tell about it. @internal */
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
    private const MESSAGE = 8192;

    /**
     * JSON of a last words event: the fatal error, or else that somebody called exit().
     *
     * @param callable|null $handler null if there is none of ours, but somebody else's loop
     * @param bool          $isDropped whether the inbox was dropped, by exit() or because nobody needs it
     */
    public static function json(string $name, ?callable $handler, bool $isDropped): string
    {
        $error = error_get_last();
        if ($error !== null && isset(self::FATAL[$error['type']])) {
            $words = [
                'class' => self::FATAL[$error['type']],
                'message' => substr($error['message'], 0, self::MESSAGE),
                'file' => $error['file'],
                'line' => $error['line'],
            ];
        } else {
            // Where exit() stands, PHP does not tell at the end of a script. Where its handler begins is near.
            $code = $handler === null ? null : new \ReflectionFunction($handler(...));
            $words = [
                'class' => 'exit',
                'message' => "exit() or die() was called while $name ran"
                    . ($isDropped ? ', or its inbox was dropped' : '')
                    . ($code === null ? '' : '; the place is where its handler begins'),
                'file' => (string) $code?->getFileName(),
                'line' => (int) $code?->getStartLine(),
            ];
        }

        return (string) json_encode($words, JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_UNESCAPED_SLASHES);
    }
}
