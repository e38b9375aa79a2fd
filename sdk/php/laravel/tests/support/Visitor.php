<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Stoker\Internal\Http\Handler;
use Stoker\Laravel\RequestHandler;
use Stoker\Task;
use Stoker\Wire\Codec;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/** A browser that asks the application of the tests, and keeps its cookies. */
final class Visitor
{
    /** @var array<string, string> */
    private array $cookies = [];
    public int $status = 0;
    /** @var array<string, list<string>> */
    public array $headers = [];

    public function __construct(private RequestHandler $handler, private string $host = 'shop.test')
    {
    }

    /** Makes a request and returns the body of the response. */
    public function get(string $path, string $method = 'GET', string $headers = '', string $body = ''): string
    {
        $cookies = implode('; ', array_map(static fn ($name, $value) => "$name=$value", array_keys($this->cookies), $this->cookies));
        $message = "$method https://{$this->host}$path HTTP/1.1\r\nhost: {$this->host}\r\n" . ($cookies === '' ? '' : "cookie: $cookies\r\n") . "$headers\r\n$body";
        $meta = Meta::encode([Key::CLIENT_ADDRESS => '203.0.113.7:5']);
        $task = new Task(Frame::of(Type::REQ, 0, Codec::HTTP, 3, 1, 0, 0, 'http:shop.request', $meta, $message), false, hrtime(true));
        [$head, $body] = explode("\r\n\r\n", (new Handler($this->handler))($task)->bytes, 2);
        $lines = explode("\r\n", $head);
        $this->status = (int) explode(' ', array_shift($lines))[1];
        $this->headers = [];
        foreach ($lines as $line) {
            [$name, $value] = explode(': ', $line, 2);
            $this->headers[$name][] = $value;
        }
        foreach ($this->headers['set-cookie'] ?? [] as $cookie) {
            [$name, $value] = explode('=', strtok($cookie, ';'), 2);
            $this->cookies[$name] = $value;
        }

        return $body;
    }
}
