<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\BadRequest;

use function count;
use function explode;
use function ltrim;
use function strpos;
use function substr;

/**
 * The request line and the header fields of a request: docs/reference/protocol.md, section 11. The gateway has checked
 * what the client sent, so only what would shift the parts of the message is checked again.
 *
 * @internal
 */
final class Head
{
    public readonly string $method;
    /** The target as the client sent it, such as "https://example.com/path?query". */
    public readonly string $uri;
    /** "HTTP/1.0", "HTTP/1.1" or "HTTP/2". */
    public readonly string $protocol;
    public readonly string $scheme;
    /** "host" or "host:port". */
    public readonly string $authority;
    public readonly string $path;
    public readonly string $query;
    /** Offset of the body in the message. */
    public readonly int $bodyAt;
    private int $fieldsAt;
    /** @var array<string, list<string>>|null */
    private ?array $fields = null;

    /** @throws BadRequest the message is malformed */
    public function __construct(private readonly string $message)
    {
        $end = strpos($message, "\r\n\r\n");
        if ($end === false) {
            throw new BadRequest('malformed request: the header section is incomplete');
        }
        $lineEnd = (int) strpos($message, "\r\n");
        $line = explode(' ', substr($message, 0, $lineEnd));
        if (count($line) !== 3 || $line[0] === '') {
            throw new BadRequest('malformed request line: expected a method, a target and a version');
        }
        [$this->method, $this->uri, $this->protocol] = $line;
        $this->bodyAt = $end + 4;
        $this->fieldsAt = $lineEnd + 2;
        $this->split($line[1]);
    }

    /**
     * Values of the fields by name, in the order of their lines. PHP turns a name of digits into an integer.
     *
     * @return array<array-key, list<string>>
     */
    public function fields(): array
    {
        if ($this->fields === null) {
            $this->fields = [];
            $length = $this->bodyAt - 4 - $this->fieldsAt;
            foreach ($length > 0 ? explode("\r\n", substr($this->message, $this->fieldsAt, $length)) : [] as $line) {
                if (!($colon = strpos($line, ':'))) {
                    throw new BadRequest('malformed header field: expected a name and a colon');
                }
                $this->fields[substr($line, 0, $colon)][] = ltrim(substr($line, $colon + 1), " \t");
            }
        }

        return $this->fields;
    }

    private function split(string $target): void
    {
        $start = strpos($target, '://');
        if ($start === false || $start === 0) {
            throw new BadRequest('malformed request target: expected the absolute form, such as https://example.com/');
        }
        $this->scheme = substr($target, 0, $start);
        $start += 3;
        $slash = $start + strcspn($target, '/?', $start);
        $this->authority = substr($target, $start, $slash - $start);
        $mark = strpos($target, '?', $slash);
        $path = $mark === false ? substr($target, $slash) : substr($target, $slash, $mark - $slash);
        $this->path = $path === '' ? '/' : $path;
        $this->query = $mark === false ? '' : substr($target, $mark + 1);
    }
}
