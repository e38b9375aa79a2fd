<?php

declare(strict_types=1);

namespace Stoker;

use Stoker\Wire\Frame;
use Stoker\Wire\Flag;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;

/**
 * A request that failed, or a request or worker that the server rejected.
 *
 * Catch the subclass that you can handle. docs/reference/protocol.md, section 5, lists the statuses.
 */
class StokerException extends \RuntimeException
{
    /** Status of the answer; null if there was no answer (a lost or refused connection). */
    public ?int $status = null;

    /** Seconds after which a retry may succeed; null if the answer did not say. */
    public ?float $retryAfter = null;

    /** True if no worker has started the task, so that a retry cannot do anything twice. */
    public bool $notProcessed = false;

    /** @var array<array-key, string> pushMany() only: ids of the accepted jobs, by the key of their body */
    public array $accepted = [];

    private const CLASSES = [
        Status::UNKNOWN => InDoubt::class,
        Status::INVALID_ARGUMENT => InvalidRequest::class,
        Status::DEADLINE_EXCEEDED => DeadlineExceeded::class,
        Status::NOT_FOUND => NotFound::class,
        Status::ALREADY_EXISTS => AlreadyExists::class,
        Status::PERMISSION_DENIED => PermissionDenied::class,
        Status::RESOURCE_EXHAUSTED => Overloaded::class,
        Status::FAILED_PRECONDITION => InvalidRequest::class,
        Status::UNIMPLEMENTED => NoWorker::class,
        Status::UNAVAILABLE => Unavailable::class,
        Status::UNAUTHENTICATED => PermissionDenied::class,
        Status::NO_WORKER => NoWorker::class,
        Status::WORKER_DIED => WorkerDied::class,
        Status::QUARANTINED => Quarantined::class,
        Status::SHED => Overloaded::class,
    ];

    /**
     * Builds the exception for an answer whose status is not OK.
     *
     * @internal
     * @param string $what name of the called method, for the message
     */
    public static function fromAnswer(Frame $answer, string $what): self
    {
        $meta = Meta::decode($answer->meta);
        [$message, $details] = explode("\n", $answer->body, 2) + ['', ''];
        $class = $answer->code >= Status::APPLICATION ? CallFailed::class : self::CLASSES[$answer->code] ?? self::class;
        $e = new $class($what . ': ' . ($message !== '' ? $message : "status {$answer->code}"));
        $e->status = $answer->code;
        $wait = Meta::int($meta[Key::RETRY_AFTER] ?? null);
        $e->retryAfter = $wait === null ? null : $wait / 1000;
        $e->notProcessed = (bool) ($answer->flags & Flag::NOT_PROCESSED);
        if ($e instanceof CallFailed) {
            $e->errorClass = $meta[Key::ERROR_CLASS] ?? '';
            $e->place = $meta[Key::ERROR_PLACE] ?? '';
            $e->details = $details;
        } elseif ($e instanceof AlreadyExists) {
            $id = $meta[Key::JOB_ID] ?? null;
            $e->jobId = $id === null ? null : Meta::uuid($id);
            if ($id !== null) {
                $e->message = "$what: the unique key is held by job $e->jobId";
            }
        }

        return $e;
    }
}
