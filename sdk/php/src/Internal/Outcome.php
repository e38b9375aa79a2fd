<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Internal\Http\Answer;
use Stoker\Task;
use Stoker\Wire\Codec;
use Stoker\Wire\Status;

use function is_string;
use function sprintf;
use function strlen;

/** How a task has ended, as the server gets to know it. @internal */
final class Outcome
{
    /** Maximum size of a job's result that the server keeps, in bytes. */
    private const MAX_RESULT = 65536;

    private function __construct(
        public int $status,
        public int $codec,
        public string $meta,
        public string $body,
    ) {
    }

    /** The outcome of a task whose handler returned $result, or threw. */
    public static function of(mixed $result, ?\Throwable $thrown, bool $isJob): self
    {
        if ($thrown === null) {
            if (is_string($result)) {
                return new self(Status::OK, Codec::RAW, '', $result);
            }
            if ($result instanceof Answer) {
                return new self(Status::OK, Codec::HTTP, '', $result->bytes);
            }
            if ($result === null && $isJob) {
                return new self(Status::OK, Codec::RAW, '', ''); // For a call, null is a result and is sent as JSON.
            }
            try {
                return new self(Status::OK, Codec::JSON, '', Codec::json($result));
            } catch (\JsonException $thrown) {
            }
        }
        [$status, $meta, $body] = Failure::of($thrown, $isJob);

        return new self($status, Codec::RAW, $meta, $body);
    }

    /** Replaces a body that is too large: a job's result, or what does not fit into a frame. */
    public function limit(Task $task, int $maxFrame): void
    {
        $size = strlen($this->body);
        if ($task->isJob && $size > self::MAX_RESULT) {
            // Keep the job done without its result: if it failed now, its work would be repeated.
            $task->log(sprintf('The result of %d bytes exceeds the maximum of %d bytes and is dropped.', $size, self::MAX_RESULT));
            [$this->codec, $this->body] = [Codec::RAW, ''];
        } elseif ($size + strlen($this->meta) + 16 > $maxFrame) {
            [$this->status, $this->codec, $this->meta] = [Status::APPLICATION, Codec::RAW, ''];
            $this->body = sprintf('the answer has %d bytes, the maximum is %d', $size, $maxFrame - 16);
        }
    }
}
