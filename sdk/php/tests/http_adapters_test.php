<?php

// Tests the adapters between requests of Stoker and PHP's superglobals, PSR-7 and Symfony, with Debian's packages.

declare(strict_types=1);

namespace Stoker\Tests;

use Nyholm\Psr7\Factory\Psr17Factory;
use Nyholm\Psr7\Response as PsrResponse;
use Stoker\Http\BadRequest;
use Stoker\Http\HttpFoundation;
use Stoker\Http\Psr7;
use Stoker\Http\Request;
use Stoker\Http\Response;
use Stoker\Http\Superglobals;
use Stoker\Wire\Key;
use Symfony\Component\HttpFoundation\BinaryFileResponse;
use Symfony\Component\HttpFoundation\Cookie;
use Symfony\Component\HttpFoundation\Request as SymfonyRequest;
use Symfony\Component\HttpFoundation\Response as SymfonyResponse;
use Symfony\Component\HttpFoundation\StreamedResponse;

/** A request with everything: query, cookies, a form with a file, credentials. */
function fullRequest(string $method = 'POST'): Request
{
    return Request::create($method, 'https://shop.test:8443/orders/1?a[]=1&b=2', [
        'content-type' => 'multipart/form-data; boundary=b',
        'cookie' => 'c=3',
        'authorization' => 'Basic ' . base64_encode('ada:pass:word'),
        'x-forwarded-for' => '10.9.9.9',
        'x_forwarded_for' => '10.8.8.8',
        'proxy' => 'evil',
        'accept' => ['text/html', 'text/plain'],
    ], parts(['name="b"', 'form'], ['name="f[x]"; filename="up/a.txt"' . "\r\nContent-Type: text/plain", 'abc'], ['name="g"; filename=""', '']), '203.0.113.7:51234', [
        Key::SCRIPT => '/srv/public/index.php',
        Key::DOCUMENT_ROOT => '/srv/public',
    ]);
}

test('http superglobals: are those of the request, and afterwards as before', function (): void {
    $before = [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST];
    $_SERVER['HTTP_PROXY'] = $_SERVER['HTTP_LEFT'] = 'environment';
    $_GET = ['old' => '1'];
    $seen = [];
    $handler = new Superglobals(function () use (&$seen): void {
        $seen = [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST];
        echo 'printed';
        $_SESSION = ['secret' => 1];
        $_GET['more'] = 1;
    });
    try {
        $response = $handler(fullRequest());
        same([['old' => '1'], 'environment', false], [$_GET, $_SERVER['HTTP_LEFT'], isset($_SESSION)]);
    } finally {
        [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST] = $before;
    }
    same([200, 'printed', 'text/html; charset=UTF-8'], [$response->status, $response->body, $response->header('content-type')]);
    [$server, $get, $post, $cookies, $files, $request] = $seen;
    $want = [
        'REQUEST_METHOD' => 'POST', 'REQUEST_URI' => '/orders/1?a[]=1&b=2', 'QUERY_STRING' => 'a[]=1&b=2', 'REQUEST_SCHEME' => 'https',
        'SERVER_PROTOCOL' => 'HTTP/1.1', 'SERVER_NAME' => 'shop.test', 'SERVER_PORT' => '8443', 'REMOTE_ADDR' => '203.0.113.7',
        'REMOTE_PORT' => '51234', 'SCRIPT_NAME' => '/index.php', 'SCRIPT_FILENAME' => '/srv/public/index.php',
        'DOCUMENT_ROOT' => '/srv/public', 'HTTPS' => 'on', 'CONTENT_TYPE' => 'multipart/form-data; boundary=b', 'HTTP_COOKIE' => 'c=3',
        'HTTP_X_FORWARDED_FOR' => '10.9.9.9', 'HTTP_ACCEPT' => 'text/html, text/plain', 'HTTP_HOST' => 'shop.test:8443',
        'PHP_AUTH_USER' => 'ada', 'PHP_AUTH_PW' => 'pass:word', 'HTTP_PROXY' => null, 'HTTP_LEFT' => null,
    ];
    same($want, array_combine(array_keys($want), array_map(static fn (string $name) => $server[$name] ?? null, array_keys($want))));
    same([['a' => ['1'], 'b' => '2'], ['b' => 'form'], ['c' => '3']], [$get, $post, $cookies]);
    same(['b' => 'form', 'a' => ['1']], array_diff_key($request, ['c' => 1]), 'a form takes precedence over the query');
    same([['x' => 'a.txt'], ['x' => 'up/a.txt'], ['x' => 'text/plain'], ['x' => 0], ['x' => 3]], [$files['f']['name'], $files['f']['full_path'], $files['f']['type'], $files['f']['error'], $files['f']['size']]);
    same(['', UPLOAD_ERR_NO_FILE], [$files['g']['tmp_name'], $files['g']['error']]);
});

test('http superglobals: the handler may return a response, and an exception restores the variables', function (): void {
    $before = [$_SERVER, $_GET];
    same([404, 'x'], [($r = (new Superglobals(fn () => Response::text('x', 404)))(fullRequest()))->status, $r->body]);
    $e = throws(\DomainException::class, fn () => (new Superglobals(function (): void {
        echo 'lost';
        throw new \DomainException('no');
    }))(fullRequest()));
    same(['no', $before], [$e->getMessage(), [$_SERVER, $_GET]]);
    same([], (new Superglobals(fn () => $_POST))(fullRequest('PUT'))->body === '[]' ? [] : null, '$_POST is empty without POST');
});

test('http superglobals: an open session does not reach the next request', function (): void {
    // In a process of its own, because the tests have printed something, and PHP then starts no session.
    $code = 'require ' . var_export(dirname(__DIR__) . '/src/autoload.php', true) . ';'
        . '$h = new Stoker\Http\Superglobals(function () { session_start(); $_SESSION["n"] = ($_SESSION["n"] ?? 0) + 1; http_response_code(201); echo session_id(), " ", $_SESSION["n"]; });'
        . '$r = fn (string $cookie) => $h(Stoker\Http\Request::create("GET", "http://a/", $cookie === "" ? [] : ["cookie" => "PHPSESSID=$cookie"]));'
        . '[$a, $b] = [$r(""), $r("")]; $again = $r(explode(" ", $a->body)[0]);'
        . 'echo json_encode([$a->status, [$a->header("set-cookie"), $again->header("set-cookie")], $a->body, $b->body, $again->body, isset($_SESSION), session_status(), http_response_code()]);';
    $folder = sys_get_temp_dir() . '/stoker-php-sessions-' . getmypid();
    mkdir($folder, 0700);
    [$process, $pipes] = Processes::php(['-d', "session.save_path=$folder", '-d', 'session.use_strict_mode=0', '-r', $code], [1 => ['pipe', 'w'], 2 => STDERR]);
    [$status, $cookies, $a, $b, $again, $isSet, $active, $after] = json_decode(stream_get_contents($pipes[1]), true, 8, JSON_THROW_ON_ERROR);
    array_map('unlink', glob("$folder/*"));
    rmdir($folder);
    same([201, '1', '1', '2'], [$status, explode(' ', $a)[1], explode(' ', $b)[1], explode(' ', $again)[1]]);
    same(['PHPSESSID=' . explode(' ', $a)[0] . '; path=/', null], $cookies, 'the cookie is sent once');
    holds(explode(' ', $a)[0] !== explode(' ', $b)[0], 'two visitors have two sessions');
    same([false, PHP_SESSION_NONE, 200], [$isSet, $active, $after]);
});

if (!stream_resolve_include_path('Nyholm/Psr7/autoload.php') || !stream_resolve_include_path('Symfony/Component/HttpKernel/autoload.php')) {
    echo "php-nyholm-psr7 or php-symfony-http-kernel is not installed: the tests of PSR-7 and Symfony are skipped.\n";

    return;
}
require_once 'Nyholm/Psr7/autoload.php';
require_once 'Symfony/Component/HttpKernel/autoload.php';

test('http PSR-7: the request', function (): void {
    $factory = new Psr17Factory();
    $psr = (new Psr7($factory, $factory, $factory))->request($stoker = fullRequest());
    same(['POST', 'https://shop.test:8443/orders/1?a%5B%5D=1&b=2', '1.1', 'shop.test:8443'], [$psr->getMethod(), (string) $psr->getUri(), $psr->getProtocolVersion(), $psr->getHeaderLine('Host')]);
    same([['text/html', 'text/plain'], 'c=3', ['c' => '3']], [$psr->getHeader('Accept'), $psr->getHeaderLine('Cookie'), $psr->getCookieParams()]);
    same([['a' => ['1'], 'b' => '2'], ['b' => 'form'], '203.0.113.7'], [$psr->getQueryParams(), $psr->getParsedBody(), $psr->getServerParams()['REMOTE_ADDR']]);
    $file = $psr->getUploadedFiles()['f']['x'];
    same(['a.txt', 'text/plain', 3, UPLOAD_ERR_OK, 'abc'], [$file->getClientFilename(), $file->getClientMediaType(), $file->getSize(), $file->getError(), (string) $file->getStream()]);
    $file->moveTo($path = tempnam(sys_get_temp_dir(), 'stoker-php-moved-'));
    same('abc', file_get_contents($path));
    unlink($path);
    same(UPLOAD_ERR_NO_FILE, $psr->getUploadedFiles()['g']->getError());
    same([$stoker, $stoker->body()], [$psr->getAttribute('stoker'), (string) $psr->getBody()]);
    same(null, (new Psr7($factory, $factory, $factory))->request(Request::create('POST', 'http://a/', ['content-type' => 'text/plain'], 'a=1'))->getParsedBody());
    throws(BadRequest::class, fn () => (new Psr7($factory, $factory, $factory))->request(Request::create('GET', 'http://a:99999/')));
});

test('http PSR-7: the body in a file, and the response', function (): void {
    $factory = new Psr17Factory();
    $path = tempnam(sys_get_temp_dir(), 'stoker-php-body-');
    file_put_contents($path, 'of the file');
    same('of the file', (string) (new Psr7($factory, $factory, $factory))->request(Request::create('POST', 'http://a/', meta: [Key::BODY_FILE => $path]))->getBody());
    unlink($path);
    $response = new PsrResponse(418, ['X-A' => ['1', '2'], 'Set-Cookie' => 'a=b'], 'short and stout');
    $response->getBody()->read(5);
    same("HTTP/1.1 418 Client Error\r\nx-a: 1\r\nx-a: 2\r\nset-cookie: a=b\r\n\r\nshort and stout", encoded($response));
});

test('http HttpFoundation: the request', function (): void {
    $symfony = HttpFoundation::request($stoker = fullRequest());
    same([SymfonyRequest::class, 'POST', 'https://shop.test:8443/orders/1?a%5B0%5D=1&b=2'], [$symfony::class, $symfony->getMethod(), $symfony->getUri()]);
    same(['203.0.113.7', ['203.0.113.7'], true, '/orders/1', ''], [$symfony->getClientIp(), $symfony->getClientIps(), $symfony->isSecure(), $symfony->getPathInfo(), $symfony->getBaseUrl()]);
    same([['1'], 'form', '3', 'ada', 'pass:word'], [$symfony->query->all('a'), $symfony->request->get('b'), $symfony->cookies->get('c'), $symfony->getUser(), $symfony->getPassword()]);
    same(['10.9.9.9', null], [$symfony->headers->get('x-forwarded-for'), $symfony->headers->get('proxy')]);
    $file = $symfony->files->get('f')['x'];
    same(['a.txt', 'text/plain', true, 3, null], [$file->getClientOriginalName(), $file->getClientMimeType(), $file->isValid(), $file->getSize(), $symfony->files->get('g')]);
    $moved = $file->move(sys_get_temp_dir(), 'stoker-php-moved-' . getmypid());
    same('abc', $moved->getContent());
    unlink($moved->getPathname());
    same([$stoker, $stoker->body()], [$symfony->attributes->get('stoker'), $symfony->getContent()]);
    same(['b' => '1'], HttpFoundation::request(Request::create('PATCH', 'http://a/', ['content-type' => 'application/x-www-form-urlencoded'], 'b=1'))->request->all());
});

test('http HttpFoundation: a body in a file is read if the application asks for it', function (): void {
    $path = tempnam(sys_get_temp_dir(), 'stoker-php-body-');
    file_put_contents($path, '{"a":1}');
    $make = static fn () => HttpFoundation::request(Request::create('POST', 'http://a/', ['content-type' => 'application/json'], meta: [Key::BODY_FILE => $path]));
    same('{"a":1}', stream_get_contents($make()->getContent(true)));
    $request = $make();
    unlink($path);
    same(['a' => 1], $request->toArray());
});

test('http HttpFoundation: responses', function (): void {
    $response = new SymfonyResponse('body', 201, ['X-A' => ['1', '2'], 'Content-Type' => 'text/plain']);
    $response->headers->setCookie(Cookie::create('s', 'x y', 0, '/', null, true));
    $lines = explode("\r\n", encoded($response));
    same(['HTTP/1.1 201 Created', 'body'], [$lines[0], end($lines)]);
    foreach (['x-a: 1', 'x-a: 2', 'content-type: text/plain', 'set-cookie: s=x%20y; path=/; secure; httponly; samesite=lax'] as $line) {
        holds(in_array($line, $lines, true), "$line in " . implode(' | ', $lines));
    }
    holds(str_contains(encoded(new SymfonyResponse('page', 404)), "\r\ncontent-type: text/html; charset=UTF-8\r\n"), 'a page without a type');
    holds(!str_contains(encoded(new SymfonyResponse('', 204)), 'content-type'), 'nothing has no type');
    $streamed = new StreamedResponse(static function (): void {
        echo 'one ';
        ob_flush();
        flush();
        ob_start();
        echo 'two';
    });
    $level = ob_get_level();
    holds(str_ends_with(encoded($streamed), "\r\n\r\none two"), encoded($streamed));
    same($level, ob_get_level());
    throws(\DomainException::class, fn () => encoded(new StreamedResponse(fn () => throw new \DomainException('no'))));
    same($level, ob_get_level());
});

test('http HttpFoundation: files are sent by the gateway, unless they are deleted after that', function (): void {
    $path = sys_get_temp_dir() . '/stoker-php-file-' . getmypid();
    file_put_contents($path, '0123456789');
    $get = static fn (string $range = '', string $method = 'GET') => HttpFoundation::request(Request::create($method, 'http://a/', $range === '' ? [] : ['range' => $range]));
    $prepared = static function (SymfonyRequest $request, bool $isDeleted = false) use ($path): string {
        return encoded((new BinaryFileResponse($path, 200, ['content-type' => 'text/plain']))->deleteFileAfterSend($isDeleted)->prepare($request));
    };
    foreach ([$prepared($get()), $prepared($get('bytes=2-4'))] as $message) {
        holds(str_starts_with($message, "HTTP/1.1 200 OK\r\n") && str_contains($message, "x-sendfile: $path\r\n"), $message);
        holds(str_ends_with($message, "\r\n\r\n") && !preg_match('/content-(length|range)/', $message), $message);
    }
    holds(str_starts_with($prepared($get('bytes=-50')), 'HTTP/1.1 416 '), 'not satisfiable');
    same(true, is_file($path));
    $deleted = $prepared($get('bytes=2-4'), true);
    holds(str_starts_with($deleted, 'HTTP/1.1 206 ') && str_ends_with($deleted, "\r\n\r\n234"), $deleted);
    same(false, is_file($path));
});
