<?php

declare(strict_types=1);

namespace Stoker\Http;

/**
 * The client's request cannot be processed. A handler that throws it, or does not catch it, answers the request with its
 * status and its message as plain text, which the client sees.
 */
final class BadRequest extends \RuntimeException
{
    /**
     * @param string $message what is wrong, for the client
     * @param int    $status  status of the answer, 400 to 499
     * @throws \InvalidArgumentException the status is outside this range
     */
    public function __construct(string $message, public readonly int $status = 400, ?\Throwable $previous = null)
    {
        if ($status < 400 || $status > 499) {
            throw new \InvalidArgumentException("invalid status $status of a BadRequest: expected 400 to 499");
        }
        parent::__construct($message, 0, $previous);
    }
}
