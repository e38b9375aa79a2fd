<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\BadRequest;
use Stoker\Http\Request;
use Stoker\Http\Response;
use Stoker\Internal\Loop;
use Stoker\Internal\Zygote;
use Stoker\Task;

use function is_string;

/** The task handler that Worker::onRequest() installs around the application's request handler. @internal */
final class Handler
{
    /** @var callable(Request): mixed */
    private $handler;

    public function __construct(callable $handler)
    {
        $this->handler = $handler;
    }

    /** The application's request handler. */
    public function application(): callable
    {
        return $this->handler;
    }

    /** @return ?Answer null if the response has been sent in parts */
    public function __invoke(Task $task): ?Answer
    {
        $request = new Request($task);
        try {
            $result = ($this->handler)($request);

            $isHead = self::isHead($task);
            if (is_string($result)) {
                return Answer::html($result, $isHead, $task);
            }
            $response = Result::response($result);

            return StreamedAnswer::send($response, $task, $isHead) ? null : Answer::of($response, $isHead, $task);
        } catch (BadRequest $e) {
            if (Loop::$active?->link->hasBegunAnswer($task)) {
                throw $e; // The client has a head already.
            }

            return Answer::of(Response::text($e->getMessage(), $e->status), false);
        } finally {
            if ($request->needsFinish()) {
                // Without a loop, which is so in tests, the response is written by nobody.
                Loop::$active === null ? $request->finish() : Loop::$active->served = $request;
            }
        }
    }

    /**
     * The names of the methods that answer requests to sites. A process that Stoker has started may have no site, because a
     * reload can remove the last one of its pool.
     *
     * @param list<string>|null $sites null: the names in STOKER_SITES
     * @return list<string>
     * @throws \LogicException there are no sites
     */
    public static function methods(?array $sites): array
    {
        $mayBeEmpty = $sites === null && (getenv('STOKER_FD') !== false || Zygote::isRequested());
        $sites ??= explode(',', (string) getenv('STOKER_SITES'));
        $sites = array_filter(array_map('trim', $sites), static fn (string $site) => $site !== '');
        if ($sites === [] && !$mayBeEmpty) {
            throw self::withoutSite();
        }

        return array_map(static fn (string $site) => "http:$site.request", array_values($sites));
    }

    /** The error of a worker that answers only requests, and has no site. */
    public static function withoutSite(): \LogicException
    {
        return new \LogicException(
            'onRequest(): this worker has no site. Stoker sets STOKER_SITES to the sites of a pool: add [site.NAME] with this'
            . ' pool to its configuration, remove the pool, or pass the names as the parameter $sites',
        );
    }

    /** Whether calls of this method are requests to a site. */
    public static function isSiteMethod(string $method): bool
    {
        return str_starts_with($method, 'http:');
    }

    private static function isHead(Task $task): bool
    {
        return str_starts_with($task->body(), 'HEAD ');
    }
}
