<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\Response;
use Stoker\Internal\Loop;
use Stoker\Internal\Parts;
use Stoker\Task;
use Stoker\Wire\Codec;

use function is_string;

/** Sends a response whose body is not a string while it is produced. @internal */
final class StreamedAnswer
{
    /**
     * Sends the head, and then each piece of the body as soon as it exists. Returns false if nothing was sent, because the
     * response has no such body, or the gateway does not accept an answer in parts.
     *
     * @throws \UnexpectedValueException a piece of the body is not a string
     */
    public static function send(Response $response, Task $task, bool $isHead): bool
    {
        $hasBody = !$isHead && $response->status !== 204 && $response->status !== 304 && $response->header('x-sendfile') === null;
        if (is_string($response->body) || !$hasBody || Loop::$active === null) {
            return false;
        }
        $parts = Loop::$active->link->parts($task);
        if (!$parts->begin(Codec::HTTP, self::head($response))) {
            return false;
        }
        self::write($response->body, $parts);
        $parts->setTrailers($response->trailers());

        return true;
    }

    private static function head(Response $response): string
    {
        $head = Answer::head($response, keepsLength: true);
        $names = $response->trailerNames();

        return $head . ($names === [] ? '' : 'trailer: ' . implode(', ', $names) . "\r\n") . "\r\n";
    }

    /** @param iterable<mixed> $body */
    private static function write(iterable $body, Parts $parts): void
    {
        if ($body instanceof PrintedBody) {
            $body->printTo($parts->write(...));

            return;
        }
        while ($body instanceof \IteratorAggregate) {
            $body = $body->getIterator();
        }
        foreach ($body as $piece) {
            $piece = Answer::piece($piece);
            try {
                $parts->write($piece);
            } catch (\Throwable $e) {
                // The generator's code learns the reason, and its `finally` runs now, before the answer ends.
                $body instanceof \Generator && $body->throw($e);
                throw $e;
            }
        }
    }
}
