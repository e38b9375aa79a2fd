<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\StreamInterface;
use Stoker\Http\Response;
use Symfony\Component\HttpFoundation\Response as SymfonyResponse;

/** Turns what a request handler returned into a response. @internal */
final class Result
{
    /** Maximum number of bytes that are read from a stream at a time. */
    private const PIECE = 65536;

    /** @throws \UnexpectedValueException the value is not one of those that onRequest() describes */
    public static function response(mixed $result): Response
    {
        return match (true) {
            $result instanceof Response => $result,
            $result === null => new Response(204),
            is_string($result) => Response::html($result),
            is_array($result), $result instanceof \JsonSerializable => Response::json($result),
            $result instanceof SymfonyResponse => SymfonyResult::response($result),
            $result instanceof ResponseInterface => self::psr($result),
            $result instanceof \Stringable => Response::html((string) $result),
            is_iterable($result) => new Response(200, ['content-type' => 'text/html; charset=UTF-8'], $result),
            default => throw new \UnexpectedValueException(
                'the request handler returned ' . get_debug_type($result) . ': expected a response, a string, an array, an iterable or null',
            ),
        };
    }

    private static function psr(ResponseInterface $response): Response
    {
        $body = $response->getBody();
        $isSmall = $body->getSize() !== null && $body->getSize() <= self::PIECE;

        // The cast reads the stream from its beginning.
        return new Response($response->getStatusCode(), $response->getHeaders(), $isSmall ? (string) $body : self::read($body));
    }

    /** @return iterable<string> what a stream contains, from its beginning if possible, in pieces as they are available */
    private static function read(StreamInterface $stream): iterable
    {
        $stream->isSeekable() && $stream->rewind();
        while (!$stream->eof()) {
            yield $stream->read(self::PIECE);
        }
    }
}
