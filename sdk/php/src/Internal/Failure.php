<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Cancelled;
use Stoker\Retry;
use Stoker\Returned;
use Stoker\Verdict;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;

/** Builds the answer for a task whose handler threw. @internal */
final class Failure
{
    /** Maximum size of message and stack trace together, in bytes. The server keeps them in the job's history. */
    private const MAX_DETAILS = 16384;

    /** @return array{int, string, string} status, metadata, body */
    public static function of(\Throwable $e, bool $isJob): array
    {
        if ($e instanceof Cancelled && !$isJob) {
            return [Status::CANCELLED, '', $e->getMessage()];
        }
        $verdict = $e instanceof Verdict && ($isJob || $e instanceof Returned) ? $e : null;
        $cause = $verdict?->getPrevious() ?? $e;
        $meta = [
            // The name of an anonymous class contains a NUL and a path; get_debug_type() omits them.
            Key::ERROR_CLASS => substr(get_debug_type($cause), 0, 1000),
            Key::ERROR_PLACE => substr($cause->getFile() . ':' . $cause->getLine(), 0, 4096),
        ];
        if ($verdict instanceof Retry && $verdict->delay !== null) {
            $meta[Key::RETRY_AFTER] = Meta::u32((int) round($verdict->delay * 1000));
        }
        $message = ltrim($e->getMessage());
        $body = ($message !== '' ? $message : get_debug_type($e)) . ($cause === $verdict ? '' : self::trace($cause));

        $body = rtrim(substr($body, 0, self::MAX_DETAILS));

        return [$verdict === null ? Status::APPLICATION : $verdict::STATUS, Meta::encode($meta), $body];
    }

    private static function trace(\Throwable $e): string
    {
        // Omit the frames from the worker's loop on: they are the same in every trace.
        $trace = "\n" . preg_replace('~^#\d+ ' . preg_quote(__DIR__, '~') . '/Loop\.php\(.*~ms', '', $e->getTraceAsString());
        for ($n = 0; $n < 5 && ($e = $e->getPrevious()) !== null; $n++) {
            $trace .= sprintf("\ncaused by %s: %s at %s:%d", get_debug_type($e), $e->getMessage(), $e->getFile(), $e->getLine());
        }

        return $trace;
    }
}
