<?php

// Tests Stoker\Http\Response, and what becomes of the values that a request handler may return.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Http\Response;
use Stoker\Internal\Http\Answer;
use Stoker\Internal\Http\Result;

/** The message that is sent for a value that a handler returned. */
function encoded(mixed $result, bool $isHead = false): string
{
    return Answer::of(Result::response($result), $isHead)->bytes;
}

test('http response: values of a handler', function (): void {
    same("HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=UTF-8\r\n\r\nhi", encoded('hi'));
    same(encoded('hi'), Answer::html('hi')->bytes, 'the short way for strings');
    same("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\":\"ü/\"}", encoded(['a' => 'ü/']));
    same("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[]", encoded([]));
    same("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n7", encoded(new class () implements \JsonSerializable {
        public function jsonSerialize(): int
        {
            return 7;
        }
    }));
    same("HTTP/1.1 204 No Content\r\n\r\n", encoded(null));
    same("HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=UTF-8\r\n\r\nab", encoded(new \ArrayIterator(['a', 'b'])));
    same("HTTP/1.1 201 Created\r\nx-a: 1\r\nx-b: 2\r\nx-b: 3\r\n\r\nbody", encoded(new Response(201, ['X-A' => 1, 'x-b' => ['2', '3']], 'body')));
    same("HTTP/1.1 299 Success\r\n\r\n", encoded(new Response(299)));
    throws(\UnexpectedValueException::class, fn () => encoded(7));
    throws(\UnexpectedValueException::class, fn () => encoded(new \ArrayIterator([1])));
    throws(\JsonException::class, fn () => encoded(["\xff"]));
});

test('http response: a header cannot be injected', function (): void {
    foreach (["a\r\nb: c", "a\nb", "a\rb", "a\0b"] as $value) {
        throws(\InvalidArgumentException::class, fn () => new Response(200, ['x' => $value]));
        throws(\InvalidArgumentException::class, fn () => new Response(200, ['x' => ['fine', $value]]));
        throws(\InvalidArgumentException::class, fn () => (new Response())->withHeader('x', $value));
        throws(\InvalidArgumentException::class, fn () => (new Response())->withAddedHeader('x', $value));
        throws(\InvalidArgumentException::class, fn () => Response::redirect($value));
        throws(\InvalidArgumentException::class, fn () => (new Response())->withCookie('n', 'v', path: $value));
        throws(\InvalidArgumentException::class, fn () => (new Response())->withCookie('n', 'v', domain: $value));
        throws(\InvalidArgumentException::class, fn () => (new Response())->withCookie($value, 'v'));
    }
    foreach (['', 'a b', 'a:', "a\r", 'ä', "a\0"] as $name) {
        throws(\InvalidArgumentException::class, fn () => (new Response())->withHeader($name, 'v'));
    }
    foreach (['a=b', 'a;b', '', 'a,b'] as $name) {
        throws(\InvalidArgumentException::class, fn () => (new Response())->withCookie($name, 'v'));
    }
    throws(\InvalidArgumentException::class, fn () => (new Response())->withCookie('n', 'v', path: '/; domain=x'));
    foreach ([199, 100, 600, 0, -1] as $status) {
        throws(\InvalidArgumentException::class, fn () => new Response($status));
    }
});

test('http response: copies', function (): void {
    $a = new Response(200, ['Content-Type' => 'a/b', 'x' => ['1', '2']], 'body');
    $b = $a->withStatus(404)->withHeader('CONTENT-TYPE', 'c/d')->withAddedHeader('X', '3')->withBody('other');
    same([200, 'a/b', ['1', '2'], 'body'], [$a->status, $a->header('content-type'), $a->headers()['x'], $a->body]);
    same([404, 'c/d', ['1', '2', '3'], 'other'], [$b->status, $b->header('Content-Type'), $b->headers()['x'], $b->body]);
    same(null, $b->withHeader('x', [])->header('x'));
});

test('http response: cookies', function (): void {
    $lines = (new Response())->withCookie('a', 'x y;')->withCookie('b', '', time() - 10, '', 'a.test', true, false, '')->headers()['set-cookie'];
    same('a=x%20y%3B; path=/; httponly; samesite=Lax', $lines[0]);
    holds((bool) preg_match('/^b=; expires=\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT; max-age=0; domain=a.test; secure$/D', $lines[1]), $lines[1]);
});

test('http response: a file is sent by the gateway', function (): void {
    $r = Response::file(__DIR__ . '/../tests/run.php', 'text/plain', "rün \"1\".php");
    same([__DIR__ . '/run.php', 'text/plain'], [$r->header('x-sendfile'), $r->header('content-type')]);
    same("attachment; filename=\"r__n _1_.php\"; filename*=UTF-8''r%C3%BCn%20%221%22.php", $r->header('content-disposition'));
    same('attachment; filename="a.php"', Response::file(__FILE__, name: 'a.php')->header('content-disposition'));
    same("HTTP/1.1 200 OK\r\nx-sendfile: " . __FILE__ . "\r\n\r\n", encoded(Response::file(__FILE__)));
    throws(\InvalidArgumentException::class, fn () => Response::file('/nonexistent'));
    throws(\InvalidArgumentException::class, fn () => Response::file(__DIR__));
});

test('http response: fields of the connection are left to the gateway, and bodies that may not be sent are dropped', function (): void {
    $r = new Response(200, ['Connection' => 'close', 'transfer-encoding' => 'chunked', 'content-length' => '99', 'x' => '1'], 'body');
    same("HTTP/1.1 200 OK\r\nx: 1\r\n\r\nbody", encoded($r));
    same("HTTP/1.1 200 OK\r\ncontent-length: 99\r\nx: 1\r\n\r\n", encoded($r, isHead: true));
    same("HTTP/1.1 304 Not Modified\r\nx: 1\r\n\r\n", encoded($r->withStatus(304)));
});
