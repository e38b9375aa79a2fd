<?php

// Tests Stoker\Http\Request: the parts of a request, as a handler sees them.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Http\BadRequest;
use Stoker\Http\Request;
use Stoker\Task;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Type;

test('http request: method, target, version and client', function (): void {
    $r = Request::create('GET', 'https://Shop.test:8443/a%20b/./c?x=1&y=%3F', meta: [Key::SCRIPT => '/srv/public/index.php', Key::DOCUMENT_ROOT => '/srv/public']);
    same(['GET', 'https://Shop.test:8443/a%20b/./c?x=1&y=%3F', '1.1'], [$r->method(), $r->uri(), $r->protocolVersion()]);
    same(['https', 'Shop.test', 8443], [$r->scheme(), $r->host(), $r->port()]);
    same(['/a%20b/./c', 'x=1&y=%3F', ['x' => '1', 'y' => '?']], [$r->path(), $r->queryString(), $r->query()]);
    same(['127.0.0.1', 50000], [$r->clientAddress(), $r->clientPort()]);
    same(['test', '/srv/public/index.php', '/srv/public'], [$r->site(), $r->script(), $r->documentRoot()]);
});

test('http request: targets without path, port or query, and IPv6', function (): void {
    $of = static function (string $uri): array {
        $r = Request::create('GET', $uri, client: '[2001:db8::1]:51234');

        return [$r->host(), $r->port(), $r->path(), $r->queryString(), $r->clientAddress(), $r->clientPort()];
    };
    same(['a.test', 80, '/', '', '2001:db8::1', 51234], $of('http://a.test'));
    same(['a.test', 443, '/', 'q?/://', '2001:db8::1', 51234], $of('https://a.test?q?/://'));
    same(['[::1]', 8080, '//x', '', '2001:db8::1', 51234], $of('http://[::1]:8080//x?'));
    same(['[::1]', 80, '/', '', '2001:db8::1', 51234], $of('http://[::1]/'));
});

test('http request: without metadata, client, script and document root are null', function (): void {
    $r = new Request(new Task(Frame::of(Type::REQ, id: 1, name: 'http:a.b.request', body: "GET http://a.b/ HTTP/2\r\n\r\n"), false, 0));
    same([null, null, null, null, 'a.b', '2'], [$r->clientAddress(), $r->clientPort(), $r->script(), $r->documentRoot(), $r->site(), $r->protocolVersion()]);
    same([[], '', 0, [], [], []], [$r->headers(), $r->body(), $r->bodySize(), $r->cookies(), $r->form(), $r->files()]);
});

test('http request: header fields', function (): void {
    $r = Request::create('GET', 'http://a.test/', ['Accept' => ['text/html', 'text/plain'], 'cookie' => ['a=1', 'b=2'], 'x-empty' => '', '7' => 'seven', 'x-colon' => 'a: b']);
    same(['text/html, text/plain', 'a=1; b=2', '', 'a: b', null, 'a.test'], array_map($r->header(...), ['ACCEPT', 'cookie', 'x-empty', 'X-Colon', 'x-none', 'host']));
    same(['text/html', 'text/plain'], $r->headers()['accept']);
    same('seven', $r->header('7'));
});

test('http request: a malformed message is a BadRequest', function (): void {
    $read = static function (string $message): Request {
        return new Request(new Task(Frame::of(Type::REQ, id: 1, name: 'http:a.request', body: $message), false, 0));
    };
    foreach (["GET http://a/ HTTP/1.1\r\n", "GET /relative HTTP/1.1\r\n\r\n", "GET http://a/\r\n\r\n", "GET http://a/ b HTTP/1.1\r\n\r\n", "\r\n\r\n", ''] as $message) {
        same(400, throws(BadRequest::class, fn () => $read($message)->path())->status, json_encode($message));
    }
    foreach (["noline\r\n\r\n", ": v\r\n\r\n"] as $fields) {
        throws(BadRequest::class, fn () => $read("GET http://a/ HTTP/1.1\r\n$fields")->headers());
    }
    throws(\InvalidArgumentException::class, fn () => new BadRequest('x', 500));
});

test('http request: cookies are read as PHP reads them', function (): void {
    $cookies = static fn (string $field) => Request::create('GET', 'http://a/', ['cookie' => $field])->cookies();
    same(['a' => '1', 'b' => 'x y+z=', 'c' => ''], $cookies('a=1; b=x%20y+z=;c=; a=2;;'));
    same(['plain' => 'p', 'l' => ['1', '2'], 'm' => ['k' => 'v'], 'a_b' => 'dot'], $cookies('l[]=1; plain=p; l[]=2; m[k]=v; a.b=dot; a.b=again'));
    same(['__Host-id' => 'real'], $cookies('..Host-id=forged; __Host-id=real; .[Host-x=forged; _.Secure-y=forged'));
});

test('http request: a form of any method', function (): void {
    $form = ['content-type' => 'application/x-www-form-urlencoded; charset=UTF-8'];
    same(['a' => ['b' => ['1', '2']], 'c' => 'ü &'], Request::create('PUT', 'http://a/', $form, 'a[b][]=1&a[b][]=2&c=%C3%BC+%26')->form());
    same([], Request::create('POST', 'http://a/', ['content-type' => 'text/plain'], 'a=1')->form());
});

test('http request: more variables or bytes than PHP\'s configuration permits are refused, not dropped', function (): void {
    $form = ['content-type' => 'application/x-www-form-urlencoded'];
    $post = static fn (string $body) => Request::create('POST', 'http://a/', $form, $body)->form();
    $limit = (int) ini_get('max_input_vars');
    same($limit, count($post(implode('&', array_map(static fn ($n) => "v$n=1", range(1, $limit))))));
    same(400, throws(BadRequest::class, fn () => $post(str_repeat('a[]=1&', $limit) . 'a[]=1'))->status);
    throws(BadRequest::class, fn () => Request::create('GET', 'http://a/?' . str_repeat('&', $limit))->query());
    $before = ini_set('post_max_size', '1K') === false; // It cannot be changed at run time.
    same(true, $before);
    same(413, throws(BadRequest::class, fn () => $post(str_repeat('a', (8 << 20) + 1)))->status);
});

test('http request: JSON', function (): void {
    $json = static fn (string $body) => Request::create('POST', 'http://a/', [], $body)->json();
    same([['a' => [1]], null], [$json('{"a":[1]}'), $json('')]);
    throws(BadRequest::class, fn () => $json('{'));
});

test('http request: a body in a file is read when it is needed', function (): void {
    $path = tempnam(sys_get_temp_dir(), 'stoker-php-body-');
    $make = static fn () => Request::create('POST', 'http://a/', ['content-type' => 'application/x-www-form-urlencoded', 'content-length' => '7'], '', meta: [Key::BODY_FILE => $path]);
    file_put_contents($path, 'a=1&b=2');
    $r = $make();
    same([$path, 7, 'a=1&b=2', ['a' => '1', 'b' => '2']], [$r->bodyFile(), $r->bodySize(), $r->body(), $r->form()]);
    $stream = $r->bodyStream();
    unlink($path);
    same('a=1&b=2', stream_get_contents($stream));
    same(['a' => '1', 'b' => '2'], $r->form(), 'parsed once');
    same(true, str_contains(throws(\RuntimeException::class, fn () => $make()->body())->getMessage(), $path));
    $inMessage = Request::create('POST', 'http://a/', [], "\0bytes");
    same([null, "\0bytes", "\0bytes"], [$inMessage->bodyFile(), $inMessage->body(), stream_get_contents($inMessage->bodyStream())]);
});

test('http request: a worker on another machine gets no file, and never takes the body for an empty one', function (): void {
    $r = Request::create('POST', 'http://a/', ['content-type' => 'application/x-www-form-urlencoded', 'content-length' => '7'], '');
    foreach (['body', 'bodyStream', 'form'] as $method) {
        same(true, str_contains(throws(\RuntimeException::class, fn () => $r->$method())->getMessage(), 'another machine'), $method);
    }
});
