<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\Response;
use Symfony\Component\HttpFoundation\BinaryFileResponse;
use Symfony\Component\HttpFoundation\Response as SymfonyResponse;

/** Turns a response of Symfony's HttpFoundation into one of this SDK. @internal */
final class SymfonyResult
{
    public static function response(SymfonyResponse $response): Response
    {
        $status = $response->getStatusCode();
        $headers = $response->headers->all(); // With the cookies.
        if ($response instanceof BinaryFileResponse && ($path = self::path($response, $status)) !== null) {
            // The gateway answers ranges of it.
            unset($headers['content-range'], $headers['content-length']);

            return new Response(200, ['x-sendfile' => $path] + $headers);
        }
        $content = $response->getContent();
        // Responses that print their content return false.
        $content = $content === false ? new PrintedBody($response->sendContent(...)) : $content;
        if ($content !== '') {
            // Laravel's error pages have no type; PHP's other SAPIs add this one.
            $headers += ['content-type' => ['text/html; charset=UTF-8']];
        }

        return new Response($status, $headers, $content);
    }

    /** The file that the gateway can send; null if it is to be deleted after that, or is not the response's body. */
    private static function path(BinaryFileResponse $response, int $status): ?string
    {
        $isDeleted = (fn (): bool => $this->deleteFileAfterSend)->call($response);
        $path = $isDeleted || ($status !== 200 && $status !== 206) ? false : $response->getFile()->getRealPath();

        return $path === false ? null : $path;
    }

    /** Runs code and returns what it prints. */
    public static function capture(callable $print): string
    {
        $printed = '';
        $level = ob_get_level();
        // A callback, because the code may flush the buffer.
        ob_start(static function (string $bytes) use (&$printed): string {
            $printed .= $bytes;

            return '';
        });
        try {
            $print();
        } finally {
            while (ob_get_level() > $level) {
                ob_end_flush();
            }
        }

        return $printed;
    }
}
