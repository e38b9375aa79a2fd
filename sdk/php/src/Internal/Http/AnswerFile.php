<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Internal\Loop;
use Stoker\Task;
use Stoker\Wire\Key;

use function bin2hex;
use function strlen;

/** Writes the body of a large answer to a file, which the gateway sends and removes: the server need not pass it on. @internal */
final class AnswerFile
{
    /** Smaller bodies are sent in the answer itself, in bytes. */
    private const MIN_SIZE = 128 << 10;

    /** The path of a new file with the body; null if it is to be sent in the answer. */
    public static function write(string $body, Task $task): ?string
    {
        if (strlen($body) < self::MIN_SIZE || Loop::$active?->isRemote()) {
            return null;
        }
        $directory = $task->meta(Key::ANSWER_DIRECTORY);
        if ($directory === null) {
            return null;
        }
        $path = "$directory/answer-" . bin2hex(random_bytes(12));
        $file = @fopen($path, 'xb');
        if ($file === false) {
            return null;
        }
        $isWritten = @fwrite($file, $body) === strlen($body);
        if (fclose($file) && $isWritten) {
            return $path;
        }
        @unlink($path);

        return null;
    }
}
