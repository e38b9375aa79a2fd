<?php

declare(strict_types=1);

namespace Stoker\Http;

use Stoker\Internal\Http\Cookie;
use Stoker\Internal\Http\ResponseHeaders;
use Stoker\Wire\Codec;

/**
 * The answer to a request. It does not change: the methods whose names begin with "with" return a changed copy.
 *
 *     return (new Response(404, ['content-type' => 'text/plain'], 'no such order'))->withCookie('seen', '1');
 */
final class Response
{
    public readonly int $status;
    /** @var string|iterable<string> the pieces of an iterable are sent while it produces them */
    public readonly string|iterable $body;
    /** @var array<array-key, list<string>> values by name in lower case */
    private array $headers = [];
    /** @var list<string> names of the trailers in lower case */
    private array $trailerNames = [];
    /** @var (callable(): array<string, string|list<string>>)|null */
    private $trailers = null;

    /**
     * @param int $status 200 to 599
     * @param array<string, string|int|list<string>> $headers a value or several, by name. Stoker determines `content-length`
     *                                                        and the hop-by-hop fields
     * @param string|iterable<string> $body an iterable, such as a generator, is sent while it produces its pieces
     * @throws \InvalidArgumentException the status is out of range, or a header's name or value is invalid
     */
    public function __construct(int $status = 200, array $headers = [], string|iterable $body = '')
    {
        if ($status < 200 || $status > 599) {
            throw new \InvalidArgumentException("invalid status $status of a response: expected 200 to 599");
        }
        $this->status = $status;
        $this->body = $body;
        foreach ($headers as $name => $values) {
            $name = ResponseHeaders::name((string) $name);
            foreach ((array) $values as $value) {
                $this->headers[$name][] = ResponseHeaders::value($name, (string) $value);
            }
        }
    }

    /** A response of type text/html; charset=UTF-8. */
    public static function html(string $html, int $status = 200): self
    {
        return new self($status, ['content-type' => 'text/html; charset=UTF-8'], $html);
    }

    /** A response of type text/plain; charset=UTF-8. */
    public static function text(string $text, int $status = 200): self
    {
        return new self($status, ['content-type' => 'text/plain; charset=UTF-8'], $text);
    }

    /**
     * A response of type application/json.
     *
     * @throws \JsonException the value cannot be encoded
     */
    public static function json(mixed $value, int $status = 200): self
    {
        return new self($status, ['content-type' => 'application/json'], Codec::json($value));
    }

    /**
     * A response that sends the client to another address.
     *
     * @param string $location URL or path
     * @param int    $status   301, 302, 303, 307 or 308
     * @throws \InvalidArgumentException the location has a line break
     */
    public static function redirect(string $location, int $status = 302): self
    {
        return new self($status, ['location' => $location]);
    }

    /**
     * A response whose body is a file. Stoker reads it, not this worker.
     *
     * @param string      $path the file must be in the site's `root` or in one of its `send_files`, be readable for Stoker,
     *                          and exist until the response has been sent
     * @param string|null $type media type; null: Stoker determines it by the file's name
     * @param string|null $name the client saves the file under this name instead of showing it
     * @throws \InvalidArgumentException there is no such file
     */
    public static function file(string $path, ?string $type = null, ?string $name = null): self
    {
        $real = realpath($path);
        if ($real === false || !is_file($real)) {
            throw new \InvalidArgumentException("the file $path of a response does not exist");
        }
        $response = (new self())->withHeader('x-sendfile', $real);
        if ($type !== null) {
            $response = $response->withHeader('content-type', $type);
        }
        if ($name !== null) {
            $ascii = (string) preg_replace('/[^\x20-\x7e]|["\\\\%]/', '_', $name);
            $encoded = $ascii === $name ? '' : "; filename*=UTF-8''" . rawurlencode($name);
            $response = $response->withHeader('content-disposition', "attachment; filename=\"$ascii\"$encoded");
        }

        return $response;
    }

    /** @return array<array-key, list<string>> values by name in lower case */
    public function headers(): array
    {
        return $this->headers;
    }

    /** The first value of a header; null if there is none. */
    public function header(string $name): ?string
    {
        return $this->headers[strtolower($name)][0] ?? null;
    }

    /** @throws \InvalidArgumentException the status is not within 200 to 599 */
    public function withStatus(int $status): self
    {
        return $this->copy(new self($status, $this->headers, $this->body));
    }

    /** @param string|iterable<string> $body */
    public function withBody(string|iterable $body): self
    {
        return $this->copy(new self($this->status, $this->headers, $body));
    }

    /**
     * Replaces a header.
     *
     * @param string|list<string> $value several values become several lines; an empty list removes the header
     * @throws \InvalidArgumentException the name is not a token, or a value has a line break or a NUL
     */
    public function withHeader(string $name, string|array $value): self
    {
        return $this->copy(new self($this->status, array_replace($this->headers, [strtolower($name) => $value]), $this->body));
    }

    /**
     * Adds a value to a header.
     *
     * @throws \InvalidArgumentException as withHeader()
     */
    public function withAddedHeader(string $name, string $value): self
    {
        return $this->withHeader($name, [...$this->headers[strtolower($name)] ?? [], $value]);
    }

    /**
     * Adds trailers: fields that follow a body that is an iterable. They are not sent after any other body. Browsers ignore
     * most of them, and clients of HTTP/1.1 get them only if they sent `te: trailers`.
     *
     * @param list<string> $names their names, which the head announces; values under other names are not sent
     * @param callable(): array<string, string|list<string>> $values called after the last piece of the body
     * @throws \InvalidArgumentException a name is not a token
     */
    public function withTrailers(array $names, callable $values): self
    {
        $copy = $this->withStatus($this->status);
        $copy->trailerNames = array_map(ResponseHeaders::name(...), $names);
        $copy->trailers = $values;

        return $copy;
    }

    /**
     * @internal
     * @return list<string>
     */
    public function trailerNames(): array
    {
        return $this->trailerNames;
    }

    /**
     * @internal
     * @return array<string, list<string>> the trailers by name in lower case
     * @throws \InvalidArgumentException as withHeader()
     */
    public function trailers(): array
    {
        $trailers = $this->trailers === null ? [] : ($this->trailers)();

        return array_intersect_key((new self(200, $trailers))->headers, array_flip($this->trailerNames));
    }

    private function copy(self $changed): self
    {
        $changed->trailers = $this->trailers;
        $changed->trailerNames = $this->trailerNames;

        return $changed;
    }

    /**
     * Adds a cookie.
     *
     * @param string $value    any bytes; they are encoded, as by setcookie()
     * @param int    $expires  Unix time in seconds; 0 = when the browser is closed; a time in the past removes the cookie
     * @param string $sameSite "Lax", "Strict", "None", or "" for none
     * @throws \InvalidArgumentException the name or an attribute has characters that are not allowed in it
     */
    public function withCookie(
        string $name,
        string $value,
        int $expires = 0,
        string $path = '/',
        string $domain = '',
        bool $secure = false,
        bool $httpOnly = true,
        string $sameSite = 'Lax',
    ): self {
        return $this->withAddedHeader('set-cookie', Cookie::line($name, $value, $expires, $path, $domain, $secure, $httpOnly, $sameSite));
    }
}
