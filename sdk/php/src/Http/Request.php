<?php

declare(strict_types=1);

namespace Stoker\Http;

use Stoker\Internal\Http\Form;
use Stoker\Internal\Http\Head;
use Stoker\Internal\Http\Uploads;
use Stoker\Internal\Http\Variables;
use Stoker\Task;
use Stoker\Wire\Codec;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/**
 * A request of a client to a site, as the handler of Worker::onRequest() sees it.
 *
 * Each part is parsed when it is first asked for. A part that is malformed throws BadRequest; if the handler does not
 * catch it, the client gets the status 400.
 */
final class Request
{
    private ?Head $head = null;
    private ?Form $form = null;
    private ?Uploads $uploads = null;
    /** @var array<array-key, mixed>|null */
    private ?array $query = null;
    /** @var array<array-key, mixed>|null */
    private ?array $cookies = null;
    /** @var list<callable(): mixed> */
    private array $after = [];

    /** @internal */
    public function __construct(private readonly Task $task)
    {
    }

    /**
     * Makes a request without Stoker, for tests of handlers.
     *
     * @param string $method  such as "GET"
     * @param string $uri     in absolute form, such as "https://example.com/path?query"
     * @param array<string, string|list<string>> $headers
     * @param string $client  address and port of the client
     * @param array<int, string> $meta further metadata, by the keys of Wire\Key
     */
    public static function create(
        string $method,
        string $uri,
        array $headers = [],
        string $body = '',
        string $client = '127.0.0.1:50000',
        array $meta = [],
    ): self {
        $authority = explode('/', $uri)[2] ?? '';
        $headers = array_change_key_case($headers) + ['host' => $authority] + ($body === '' ? [] : ['content-length' => (string) strlen($body)]);
        $head = "$method $uri HTTP/1.1\r\n";
        foreach ($headers as $name => $values) {
            foreach ((array) $values as $value) {
                $head .= "$name: $value\r\n";
            }
        }
        $meta = Meta::encode([Key::CLIENT_ADDRESS => $client] + $meta);
        $frame = Frame::of(Type::REQ, code: Codec::HTTP, id: 1, name: 'http:test.request', meta: $meta, body: "$head\r\n$body");

        return new self(new Task($frame, false, hrtime(true)));
    }

    /** The task: it has the deadline and the remaining time, and writes to the log. Its body() is the whole message. */
    public function task(): Task
    {
        return $this->task;
    }

    /** Name of the site, as in the configuration of Stoker. */
    public function site(): string
    {
        return substr($this->task->name, 5, -8); // The task is called http:NAME.request.
    }

    /** The method as the client sent it, usually in upper case. */
    public function method(): string
    {
        return $this->head()->method;
    }

    /** The target in absolute form, such as "https://example.com/path?query", neither decoded nor normalised. */
    public function uri(): string
    {
        return $this->head()->uri;
    }

    /** "https" or "http": what the client used, also behind a proxy that Stoker trusts. */
    public function scheme(): string
    {
        return $this->head()->scheme;
    }

    /** The host that the client asked for, without its port; an IPv6 address is in brackets. */
    public function host(): string
    {
        return (string) preg_replace('/:\d*$/D', '', $this->head()->authority);
    }

    /** The port that the client asked for: that of the target, else 443 for https and 80 for http. */
    public function port(): int
    {
        return preg_match('/:(\d{1,5})$/D', $this->head()->authority, $found) ? (int) $found[1] : ($this->scheme() === 'https' ? 443 : 80);
    }

    /** The path, from "/", without the query; not decoded. */
    public function path(): string
    {
        return $this->head()->path;
    }

    /** What follows the question mark, not decoded; '' if there is nothing. */
    public function queryString(): string
    {
        return $this->head()->query;
    }

    /** The version of HTTP that the client speaks: "1.0", "1.1" or "2". */
    public function protocolVersion(): string
    {
        return substr($this->head()->protocol, 5);
    }

    /** IP address of the client; behind proxies that Stoker trusts, the one that they report. null if it is unknown. */
    public function clientAddress(): ?string
    {
        $address = $this->task->meta(Key::CLIENT_ADDRESS);

        return $address === null ? null : trim((string) preg_replace('/:\d+$/D', '', $address), '[]');
    }

    /** Port of the client's end of its connection; null if it is unknown. */
    public function clientPort(): ?int
    {
        return preg_match('/:(\d+)$/D', (string) $this->task->meta(Key::CLIENT_ADDRESS), $found) ? (int) $found[1] : null;
    }

    /** Absolute path of the site's front controller; null if it has none. */
    public function script(): ?string
    {
        return $this->task->meta(Key::SCRIPT);
    }

    /** Absolute path of the site's public files; null if it has none. */
    public function documentRoot(): ?string
    {
        return $this->task->meta(Key::DOCUMENT_ROOT);
    }

    /**
     * The values of all header fields, by name in lower case.
     *
     * @return array<array-key, list<string>> PHP turns a name that consists of digits into an integer
     * @throws BadRequest the header is malformed
     */
    public function headers(): array
    {
        return $this->head()->fields();
    }

    /**
     * The value of a header field; if the client sent several, they are joined by commas. null if there is none.
     *
     * @param string $name in any case
     * @throws BadRequest the header is malformed
     */
    public function header(string $name): ?string
    {
        $values = $this->head()->fields()[$name = strtolower($name)] ?? [];
        if (count($values) > 1) {
            return implode($name === 'cookie' ? '; ' : ', ', $values);
        }

        return $values[0] ?? null;
    }

    /**
     * The variables of the query, decoded and nested as in $_GET.
     *
     * @return array<array-key, mixed>
     * @throws BadRequest if there are more than `max_input_vars` of PHP's configuration
     */
    public function query(): array
    {
        return $this->query ??= Variables::parse($this->head()->query);
    }

    /**
     * The cookies, decoded and nested as in $_COOKIE.
     *
     * @return array<array-key, mixed>
     * @throws BadRequest the header is malformed
     */
    public function cookies(): array
    {
        return $this->cookies ??= Variables::cookies((string) $this->header('cookie'));
    }

    /**
     * The fields of a form, decoded and nested as in $_POST. In contrast to $_POST, with any method. Empty if the content
     * type is neither application/x-www-form-urlencoded nor multipart/form-data.
     *
     * @return array<array-key, mixed>
     * @throws BadRequest the form is malformed, or exceeds `post_max_size` or `max_input_vars` of PHP's configuration
     */
    public function form(): array
    {
        return $this->parsed()->fields;
    }

    /**
     * The files of a form, by the names of their fields: an UploadedFile, or an array of them for names such as "a[]".
     *
     * @return array<array-key, mixed>
     * @throws BadRequest as form()
     */
    public function files(): array
    {
        return $this->parsed()->files;
    }

    /**
     * The body decoded as JSON, with objects as arrays; null if it is empty.
     *
     * @throws BadRequest the body is not valid JSON
     */
    public function json(): mixed
    {
        try {
            return ($body = $this->body()) === '' ? null : json_decode($body, true, 512, JSON_THROW_ON_ERROR);
        } catch (\JsonException $e) {
            throw new BadRequest("the body is not valid JSON: {$e->getMessage()}", 400, $e);
        }
    }

    /**
     * The body, as the bytes that were sent. One that is in a file is read again by each call.
     *
     * @throws \RuntimeException the file with the body cannot be read
     */
    public function body(): string
    {
        return ($file = $this->bodyFile()) === null
            ? $this->bodyInMessage()
            : (string) stream_get_contents($this->open($file));
    }

    /** The size of the body in bytes. */
    public function bodySize(): int
    {
        return ($file = $this->bodyFile()) === null ? strlen($this->task->body()) - $this->head()->bodyAt : (int) @filesize($file);
    }

    /**
     * Path of the file with the body, if Stoker did not send it in the message because it is large; else null. The handler
     * may move the file. Otherwise it is removed when the answer has been sent.
     */
    public function bodyFile(): ?string
    {
        return $this->task->meta(Key::BODY_FILE);
    }

    /**
     * A stream that reads the body from its beginning.
     *
     * @return resource
     * @throws \RuntimeException the file with the body cannot be read
     */
    public function bodyStream()
    {
        if (($file = $this->bodyFile()) !== null) {
            return $this->open($file);
        }
        $stream = fopen('php://memory', 'w+b');
        fwrite($stream, $this->body());
        rewind($stream);

        return $stream;
    }

    /**
     * Calls a function when the response has been written, also if the handler throws an exception. Until it returns, this
     * worker starts no other task, so leave long work to a job. What it prints goes to the log of the worker; an exception
     * is reported on stderr.
     *
     * @param callable(): mixed $do
     */
    public function afterResponse(callable $do): void
    {
        $this->after[] = $do;
    }

    /** @internal whether finish() has something to do */
    public function needsFinish(): bool
    {
        return $this->after !== [] || $this->uploads !== null;
    }

    /** @internal calls the functions of afterResponse(), and removes temporary files */
    public function finish(): void
    {
        try {
            while (($do = array_shift($this->after)) !== null) {
                try {
                    $do();
                } catch (\Throwable $e) {
                    file_put_contents('php://stderr', "stoker: {$this->task->name}: after the response: $e\n");
                }
            }
        } finally {
            $this->uploads?->remove();
        }
    }

    /** @throws \RuntimeException the body is in a file on another machine */
    private function bodyInMessage(): string
    {
        $body = substr($this->task->body(), $this->head()->bodyAt);
        if ($body === '' && ($size = (int) $this->header('content-length')) > 0) {
            throw new \RuntimeException("the body ($size bytes) is in a file on the server's machine, which a worker on another machine cannot read: serve the site with workers on the server's machine, or limit its max_body to \"64KB\"");
        }

        return $body;
    }

    private function head(): Head
    {
        return $this->head ??= new Head($this->task->body());
    }

    private function parsed(): Form
    {
        return $this->form ??= Form::of($this, $this->uploads ??= new Uploads());
    }

    /** @return resource */
    private function open(string $file)
    {
        return @fopen($file, 'rb') ?: throw new \RuntimeException("cannot read the body of the request from $file: it has been moved or removed");
    }
}
