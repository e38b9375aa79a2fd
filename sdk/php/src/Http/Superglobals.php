<?php

declare(strict_types=1);

namespace Stoker\Http;

use Stoker\Internal\Http\FilesVariable;
use Stoker\Internal\Http\NativeSession;
use Stoker\Internal\Http\Result;
use Stoker\Internal\Http\ServerVariables;
use Stoker\Internal\Http\SymfonyResult;

/**
 * Runs code that uses $_GET, $_POST, $_SERVER and echo as the handler of requests:
 *
 *     Worker::create()->onRequest(new Superglobals(fn () => render_page()))->run();
 *
 * The variables $_SERVER, $_GET, $_POST, $_COOKIE, $_FILES and $_REQUEST are those of the request while the code runs, and
 * as they were before after it. What the code prints is the body, unless it returns a response; http_response_code() sets
 * the status. A session that it opens with session_start() is closed after it, and its cookie is sent.
 *
 * What PHP does not permit in a process of the command line:
 * - header() and setcookie() record nothing, so headers_list() is empty and they do not reach the client. Return a Response
 *   instead. (The status that header('Location: …') or header('HTTP/1.1 404') implies is used.) In other SAPIs, which
 *   record headers, they are sent.
 * - http_response_code() and session_start() need a worker that has printed nothing between tasks, because PHP takes headers for sent then.
 * - move_uploaded_file() and is_uploaded_file() return false: use rename(), or UploadedFile::moveTo().
 * - php://input is empty: use Request::body().
 * - exit() ends the worker instead of the request.
 */
final class Superglobals
{
    /** @var callable(Request): mixed */
    private $handler;

    /** @param callable(Request): mixed $handler returns null, or anything that Worker::onRequest() describes */
    public function __construct(callable $handler)
    {
        $this->handler = $handler;
    }

    /** @throws BadRequest the request is malformed */
    public function __invoke(Request $request): Response
    {
        $before = [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST];
        self::fill($request);
        NativeSession::begin($_COOKIE);
        $result = null;
        try {
            $printed = SymfonyResult::capture(function () use ($request, &$result): void {
                $result = ($this->handler)($request);
            });

            return self::response($result, $printed);
        } finally {
            [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST] = $before;
            self::clean();
        }
    }

    /**
     * Sets the variables for a request, for code that restores them itself.
     *
     * @throws BadRequest the request is malformed
     */
    public static function fill(Request $request): void
    {
        // Everything is parsed before the first variable changes.
        $server = ServerVariables::of($request);
        [$get, $cookies] = [$request->query(), $request->cookies()];
        $isPost = $request->method() === 'POST';
        [$post, $files] = $isPost ? [$request->form(), FilesVariable::of($request->files())] : [[], []];
        // Variables of the environment with such a name would look like fields of the request.
        $ours = '/^(HTTP_|HTTPS$|CONTENT_|PHP_AUTH_|REMOTE_|SERVER_)/';
        $_SERVER = $server + array_filter($_SERVER, static fn ($name) => !preg_match($ours, (string) $name), ARRAY_FILTER_USE_KEY);
        [$_GET, $_POST, $_COOKIE, $_FILES] = [$get, $post, $cookies, $files];
        $_REQUEST = [];
        foreach (str_split(strtoupper(ini_get('request_order') ?: (string) ini_get('variables_order'))) as $source) {
            $_REQUEST = match ($source) {
                'G' => $get,
                'P' => $post,
                'C' => $cookies,
                default => [],
            } + $_REQUEST;
        }
    }

    private static function response(mixed $result, string $printed): Response
    {
        $status = http_response_code();
        $headers = [];
        foreach (headers_list() as $line) {
            [$name, $value] = explode(':', $line, 2) + ['', ''];
            $headers[strtolower($name)][] = ltrim($value);
        }
        if ($result !== null && $result !== 1) { // A file that is included returns 1.
            $response = Result::response($result);
            $response = $headers === [] ? $response : new Response($response->status, $response->headers() + $headers, $response->body);
        } else {
            $headers += ['content-type' => 'text/html; charset=UTF-8'];
            $response = new Response(is_int($status) ? $status : 200, $headers, $printed);
        }
        $cookie = isset($headers['set-cookie']) ? null : NativeSession::cookie();

        return $cookie === null ? $response : $response->withAddedHeader('set-cookie', $cookie);
    }

    private static function clean(): void
    {
        NativeSession::end();
        if (!headers_sent()) {
            header_remove();
            http_response_code(200);
        }
    }
}
