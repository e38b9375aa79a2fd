<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\Response;
use Stoker\Task;

/** The encoded response to a request: a message of HTTP/1.1, with which Loop answers the task. @internal */
final class Answer
{
    /** Status lines up to the end of the reason. Others get a general one, because some programs expect a reason. */
    private const REASONS = [
        200 => 'OK', 201 => 'Created', 202 => 'Accepted', 204 => 'No Content', 206 => 'Partial Content',
        301 => 'Moved Permanently', 302 => 'Found', 303 => 'See Other', 304 => 'Not Modified',
        307 => 'Temporary Redirect', 308 => 'Permanent Redirect',
        400 => 'Bad Request', 401 => 'Unauthorized', 403 => 'Forbidden', 404 => 'Not Found',
        405 => 'Method Not Allowed', 409 => 'Conflict', 410 => 'Gone', 413 => 'Content Too Large', 419 => 'Page Expired',
        422 => 'Unprocessable Content', 429 => 'Too Many Requests',
        500 => 'Internal Server Error', 502 => 'Bad Gateway', 503 => 'Service Unavailable', 504 => 'Gateway Timeout',
    ];
    private const GENERAL = [2 => 'Success', 3 => 'Redirection', 4 => 'Client Error', 5 => 'Server Error'];
    private const HTML = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=UTF-8\r\n";
    /** Fields that the gateway determines, because they concern its connection to the client. */
    private const OMITTED = [
        'connection' => true, 'keep-alive' => true, 'proxy-connection' => true, 'te' => true,
        'trailer' => true, 'transfer-encoding' => true, 'upgrade' => true,
    ];

    private function __construct(public readonly string $bytes)
    {
    }

    /**
     * The answer for a handler that returned a string.
     *
     * @param bool $isHead whether the method is HEAD: then the body is left out
     * @param ?Task $task the request's task, so that a large body may be sent as a file
     */
    public static function html(string $body, bool $isHead = false, ?Task $task = null): self
    {
        return new self(self::message(self::HTML, $isHead ? '' : $body, $task));
    }

    /**
     * @param bool $isHead whether the method is HEAD: then the body is left out, and only then is content-length of use
     * @param ?Task $task the request's task, so that a large body may be sent as a file
     * @throws \UnexpectedValueException a piece of the body is not a string
     */
    public static function of(Response $response, bool $isHead, ?Task $task = null): self
    {
        $status = $response->status;
        $head = self::head($response, $isHead);
        $hasNoBody = $isHead || $status === 204 || $status === 304 || $response->header('x-sendfile') !== null;

        return new self(self::message($head, $hasNoBody ? '' : self::join($response->body), $task));
    }

    /** The status line and the fields, each with its end. */
    public static function head(Response $response, bool $keepsLength): string
    {
        $status = $response->status;
        $head = "HTTP/1.1 $status " . (self::REASONS[$status] ?? self::GENERAL[intdiv($status, 100)]) . "\r\n";
        foreach ($response->headers() as $name => $values) {
            if (isset(self::OMITTED[$name]) || $name === 'content-length' && !$keepsLength) {
                continue;
            }
            foreach ($values as $value) {
                $head .= "$name: $value\r\n";
            }
        }

        return $head;
    }

    /** @param string $head the status line and the fields, each with its end */
    private static function message(string $head, string $body, ?Task $task): string
    {
        $file = $task === null ? null : AnswerFile::write($body, $task);

        return $file === null ? "$head\r\n$body" : "{$head}x-sendfile: $file\r\n\r\n";
    }

    /** @param string|iterable<mixed> $body */
    private static function join(string|iterable $body): string
    {
        if (is_string($body)) {
            return $body;
        }
        $joined = '';
        foreach ($body as $piece) {
            $joined .= self::piece($piece);
        }

        return $joined;
    }

    /** @throws \UnexpectedValueException the piece of a body is not a string */
    public static function piece(mixed $piece): string
    {
        if (!is_string($piece) && !$piece instanceof \Stringable) {
            throw new \UnexpectedValueException('a piece of the body is of type ' . get_debug_type($piece) . ': expected string');
        }

        return (string) $piece;
    }
}
