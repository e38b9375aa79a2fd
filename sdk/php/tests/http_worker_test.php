<?php

// Tests a real worker process that answers requests, with the test as its server.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Http\Request;
use Stoker\Wire\Codec;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;
use Stoker\Worker;

/** A request to the site "shop" of the fixture http.php. */
function req(string $path, string $method = 'GET', string $headers = '', string $body = '', array $meta = [], int $id = 1, string $site = 'shop'): Frame
{
    $message = "$method http://shop.test$path HTTP/1.1\r\nhost: shop.test\r\n$headers\r\n$body";

    return Frame::of(Type::REQ, $method === 'GET' ? Flag::IDEMPOTENT : 0, Codec::HTTP, 3, $id, 5000, 0, "http:$site.request", Meta::encode($meta), $message);
}

/** @return array{int, string, string} codec, status line with headers, and body of a response */
function head(Frame $answer): array
{
    same(0, $answer->code, "status, with the body $answer->body");

    return [$answer->prio, ...explode("\r\n\r\n", $answer->body, 2)];
}

test('http worker: HELLO offers the method of each site of STOKER_SITES', function (): void {
    putenv('STOKER_SITES=shop,admin.site');
    try {
        $hello = (new Probe([], [], 'http.php'))->hello;
    } finally {
        putenv('STOKER_SITES');
    }
    same([['http:shop.request', 'http:admin.site.request', 't.state', 't.codec'], []], [$hello['calls'], $hello['idempotent']]);
    same(['http:one.request', 'http:two.request'], array_slice((new Probe(['one,two'], [], 'http.php'))->hello['calls'], 0, 2), 'or of the parameter');
});

test('http worker: a reload gives the pool another site', function (): void {
    putenv('STOKER_SITES=shop');
    try {
        $probe = (new Probe([], [], 'http.php'))->welcome();
    } finally {
        putenv('STOKER_SITES');
    }
    same('hello world', head($probe->ask(req('/hello', site: 'moved')))[2]);
    same('moved', json_decode(head($probe->ask(req('/describe', site: 'moved')))[2], true)['site']);
    same(Status::UNIMPLEMENTED, $probe->ask(Probe::call('t.other'))->code, 'only requests to sites');
    $probe = (new Probe(['shop'], [], 'http.php'))->welcome();
    same(Status::UNIMPLEMENTED, $probe->ask(req('/hello', site: 'moved'))->code, 'a worker that names its sites answers only those');
});

test('http worker: a reload has removed the last site of its pool', function (): void {
    $probe = (new Probe([], [], 'http.php'))->welcome();
    same(['t.state', 't.codec'], $probe->hello['calls'], 'what else it does, it still does');
    same('hello world', head($probe->ask(req('/hello', site: 'again')))[2], 'and a site that comes back');
    putenv('STOKER_FD=0');
    try {
        $message = throws(\LogicException::class, fn () => Worker::create()->onRequest(fn () => '')->run())->getMessage();
    } finally {
        putenv('STOKER_FD');
    }
    holds(str_contains($message, '[site.NAME]') && str_contains($message, 'remove the pool'), $message);
});

test('http worker: without sites, onRequest() says what to do', function (): void {
    $message = throws(\LogicException::class, fn () => Worker::create()->onRequest(fn () => ''))->getMessage();
    holds(str_contains($message, 'STOKER_SITES') && str_contains($message, '[site.NAME]'), $message);
    throws(\LogicException::class, fn () => Worker::create()->onRequest(fn () => '', []));
    throws(\InvalidArgumentException::class, fn () => Worker::create()->onRequest(fn () => '', ['a b']));
});

test('http worker: responses have the codec of HTTP', function (): void {
    $probe = (new Probe(['shop,other'], [], 'http.php'))->welcome();
    same([Codec::HTTP, "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=UTF-8", 'hello Ada'], head($probe->ask(req('/hello?name=Ada'))));
    same([Codec::HTTP, 'HTTP/1.1 204 No Content', ''], head($probe->ask(req('/null'))));
    same([Codec::HTTP, "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain; charset=UTF-8", 'nothing here'], head($probe->ask(req('/x'))));
    same([Codec::HTTP, "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=UTF-8", 'one two'], head($probe->ask(req('/lazy'))));
    same([Codec::HTTP, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: s=x%20y; path=/; secure; httponly; samesite=Lax\r\nset-cookie: t=1; path=/; httponly; samesite=Lax", '{"a":1}'], head($probe->ask(req('/cookie'))));
    $body = random_bytes(1 << 20);
    holds(head($probe->ask(req('/echo', 'POST', "content-type: a/b\r\n", $body)))[2] === $body, 'a megabyte');
    same([0, 0, 'raw'], [($raw = $probe->ask(Probe::call('t.codec')))->code, $raw->prio, $raw->body]);
    same('other', json_decode(head($probe->ask(req('/describe', site: 'other')))[2], true)['site']);
});

test('http worker: the handler gets the request', function (): void {
    $probe = (new Probe(['shop'], [], 'http.php'))->welcome();
    $file = tempnam(sys_get_temp_dir(), 'stoker-php-body-');
    file_put_contents($file, 'of the file');
    $meta = [Key::CLIENT_ADDRESS => '203.0.113.7:51234', Key::SCRIPT => '/srv/public/index.php', Key::DOCUMENT_ROOT => '/srv/public', Key::BODY_FILE => $file];
    same([
        'site' => 'shop', 'method' => 'POST', 'uri' => 'http://shop.test/describe', 'client' => ['203.0.113.7', 51234],
        'script' => '/srv/public/index.php', 'root' => '/srv/public', 'cookies' => ['a' => 'b'], 'bodyFile' => $file,
        'body' => 'of the file', 'left' => true, 'current' => true,
    ], json_decode(head($probe->ask(req('/describe', 'POST', "cookie: a=b\r\ncontent-length: 11\r\n", '', $meta)))[2], true));
    unlink($file);
});

test('http worker: exceptions', function (): void {
    $probe = (new Probe(['shop'], [], 'http.php'))->welcome();
    $failed = $probe->ask(req('/throw'));
    same([64, 0, 'DomainException', 'no'], [$failed->code, $failed->prio, Meta::decode($failed->meta)[14], strtok($failed->body, "\n")]);
    same([Codec::HTTP, "HTTP/1.1 409 Conflict\r\ncontent-type: text/plain; charset=UTF-8", 'the reason'], head($probe->ask(req('/bad'))));
    same("HTTP/1.1 422 Unprocessable Content\r\ncontent-type: text/plain; charset=UTF-8", head($probe->ask(req('/lazy/bad')))[1]);
    $multipart = head($probe->ask(req('/upload', 'POST', "content-type: multipart/form-data; boundary=b\r\n", 'no part')));
    same(["HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=UTF-8", 'invalid multipart body: it ends before the last boundary'], [$multipart[1], $multipart[2]]);
    $number = $probe->ask(req('/number'));
    same([64, 'UnexpectedValueException'], [$number->code, Meta::decode($number->meta)[14]]);
    same('hello world', head($probe->ask(req('/hello')))[2]);
});

test('http worker: what a handler prints goes to the log of the task', function (): void {
    $probe = (new Probe(['shop'], [], 'http.php'))->welcome();
    same('body', head($probe->ask(req('/print', id: 7), $events))[2]);
    same("printed\n", Probe::logged($events, 7));
});

test('http worker: uploads exist until the functions of afterResponse() have run', function (): void {
    $probe = (new Probe(['shop'], [], 'http.php'))->welcome();
    $answer = json_decode(head($probe->ask(req('/upload', 'POST', "content-type: multipart/form-data; boundary=b\r\n", parts(['name="file"; filename="f"', 'abc'], ['name="a"', '1']))))[2], true);
    same([3, ['a' => '1']], [$answer['size'], $answer['form']]);
    $probe->ask(Probe::call('t.codec')); // The worker starts it after it has finished the request.
    same(false, is_file($answer['path']));
    $probe->halfClose();
    same("still there: true\n", $probe->stdout());
});

test('http worker: afterResponse() runs after the answer and leaves nothing behind', function (): void {
    $stderr = tempnam(sys_get_temp_dir(), 'stoker-php-stderr-');
    foreach (['', '?throw=1'] as $query) {
        $probe = (new Probe(['shop'], [], 'http.php', $stderr))->welcome();
        // Both arrive together, so the first answer precedes what is printed, and that precedes the second task.
        $probe->send(req("/after$query"), Probe::call('t.state', '', 2));
        $first = $probe->next();
        same($query === '' ? 0 : 64, $first->code);
        if ($query !== '') { // The last function has called Worker::stop().
            same([Type::GOAWAY], array_map(static fn (Frame $f) => $f->type, $probe->rest()));
        } else {
            $second = $probe->next();
            same([Type::RES, 2, '{"ob":1,"handler":null}'], [$second->type, $second->id, $second->body]);
            $probe->halfClose();
        }
        same("after, task: null\nin a buffer\nafter the exception\n", $probe->stdout(), $query);
        same('stoker: http:shop.request: after the response: LogicException: too late', strstr(file_get_contents($stderr), ' in ', true));
    }
    unlink($stderr);
});

test('http worker: a request that is made by hand, for tests of handlers', function (): void {
    $r = Request::create('POST', 'https://a.test/x', ['Content-Type' => 'application/json'], '{"a":1}');
    same([['a' => 1], '7', 'a.test'], [$r->json(), $r->header('content-length'), $r->header('host')]);
});
