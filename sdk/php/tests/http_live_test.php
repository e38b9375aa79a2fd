<?php

// Tests a worker that answers the requests of a site with a real server. Skipped if the server has not been built.

declare(strict_types=1);

namespace Stoker\Tests;

$binary = Server::binary();
if ($binary === null) {
    return; // live_test.php says so.
}

test('live http: requests and responses', function () use ($binary): void {
    $site = new Site($server = new Server($binary, Site::CONFIG, 'http.php', []));
    [$status, $body, $headers] = $site->request('GET', '/hello?name=Ada');
    same([200, 'hello Ada'], [$status, $body]);
    holds(in_array('content-type: text/html; charset=utf-8', $headers, true), implode(' | ', $headers));
    $megabyte = random_bytes(1 << 20);
    holds($site->request('POST', '/echo', ['Content-Type: a/b'], $megabyte)[1] === $megabyte, 'a megabyte');
    $described = json_decode($site->request('GET', '/describe', ['Cookie: a=b'])[1], true);
    same(['shop', "{$site->url}/describe", '127.0.0.1', ['a' => 'b'], true], [$described['site'], $described['uri'], $described['client'][0], $described['cookies'], $described['left']]);
    [$status, $body, $headers] = $site->request('GET', '/cookie');
    same([200, '{"a":1}', 2], [$status, $body, count(preg_grep('/^set-cookie: /', $headers))]);
    same([204, ''], array_slice($site->request('GET', '/null'), 0, 2));
});

test('live http: errors', function () use ($binary): void {
    $site = new Site($server = new Server($binary, Site::CONFIG, 'http.php', []));
    same(500, $site->request('GET', '/throw')[0]);
    same([409, 'the reason'], array_slice($site->request('GET', '/bad'), 0, 2));
    same(400, $site->request('POST', '/upload', ['Content-Type: multipart/form-data; boundary=b'], 'no part')[0]);
    same(502, $site->request('POST', '/kill')[0]);
    same('hello world', $site->request('GET', '/hello')[1]);
});

test('live http: work after the response delays only the next request', function () use ($binary): void {
    $site = new Site($server = new Server($binary, Site::CONFIG, 'http.php', []));
    $pid = $site->request('GET', '/pid')[1];
    same('first', $site->request('GET', '/after')[1]);
    same($pid, $site->request('GET', '/pid')[1], 'the worker has survived it');
    foreach (['after, task: null', 'in a buffer', 'after the exception', 'LogicException: too late'] as $line) {
        holds(str_contains($server->log(), $line), "$line in the log:\n" . $server->log());
    }
    // Its last function calls Worker::stop(), so the next request goes to a new worker.
    same(500, $site->request('GET', '/after?throw=1')[0]);
    holds($pid !== $site->request('GET', '/pid')[1], 'another worker');
});

test('live http: uploads are removed after the response', function () use ($binary): void {
    $site = new Site($server = new Server($binary, Site::CONFIG, 'http.php', []));
    $body = parts(['name="file"; filename="f"', str_repeat('x', 200_000)]);
    $answer = json_decode($site->request('POST', '/upload', ['Content-Type: multipart/form-data; boundary=b'], $body)[1], true);
    $site->request('GET', '/hello');
    same([200_000, false], [$answer['size'], is_file($answer['path'])]);
});

test('live http: a body that is too large for an answer is sent as a file', function () use ($binary): void {
    $site = new Site($server = new Server($binary, Site::CONFIG, 'parts.php', []));
    [$status, $body, $head] = $site->request('GET', '/string?' . (3 << 20));
    same([200, 8 * (3 << 20), md5(str_repeat('a string', 3 << 20))], [$status, strlen($body), md5($body)]);
    holds(!str_contains(strtolower(implode("\n", $head)), 'x-sendfile'), implode("\n", $head));
    same([200, ''], array_slice($site->request('HEAD', '/string?' . (3 << 20)), 0, 2));
});

test('live http: a response in parts arrives while it is produced', function () use ($binary): void {
    $site = new Site($server = new Server($binary, Site::CONFIG, 'parts.php', []));
    posix_mkfifo($gate = sys_get_temp_dir() . '/stoker-php-gate-' . getmypid(), 0600);
    $stream = fopen("{$site->url}/gate?$gate", 'r', false, stream_context_create(['http' => ['protocol_version' => 1.1, 'header' => 'Connection: close', 'timeout' => 20]]));
    same('one ', fread($stream, 100));
    fclose(fopen($gate, 'w'));
    same('two', stream_get_contents($stream));
    unlink($gate);
});

test('live http: the worker notices that the client of a response in parts has gone', function () use ($binary): void {
    $site = new Site($server = new Server($binary, Site::CONFIG, 'parts.php', []));
    posix_mkfifo($path = sys_get_temp_dir() . '/stoker-php-finally-' . getmypid(), 0600);
    $fifo = fopen($path, 'r+');
    $stream = fopen("{$site->url}/events?$path", 'r', false, stream_context_create(['http' => ['protocol_version' => 1.1, 'timeout' => 20]]));
    same("data: 1\n", fgets($stream));
    fclose($stream);
    same('a string', $site->request('GET', '/string')[1], 'the same worker, which has only one slot');
    $read = [$fifo];
    $none = [];
    same(1, stream_select($read, $none, $none, 20), $server->log());
    same('finally', fread($fifo, 7));
    unlink($path);
});

test('live http: trailers of a response in parts', function () use ($binary): void {
    $site = new Site($server = new Server($binary, Site::CONFIG, 'parts.php', []));
    $stream = stream_socket_client(str_replace('http:', 'tcp:', $site->url));
    stream_set_timeout($stream, 20);
    fwrite($stream, "GET /trailers HTTP/1.1\r\nhost: shop.test\r\nte: trailers\r\nconnection: close\r\n\r\n");
    $answer = stream_get_contents($stream);
    holds(str_contains($answer, "\r\ntrailer: x-rows, a\r\n"), $answer);
    holds(str_ends_with($answer, "\r\n0\r\nx-rows: 2\r\na: 1\r\na: 2\r\n\r\n"), $answer);
});
