<?php

// Tests RequestHandler: that a resident application serves requests, and that none sees the state of another.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Http\Request;
use Illuminate\Pagination\LengthAwarePaginator;
use Illuminate\Pagination\PaginationState;
use Illuminate\Pagination\Paginator;
use Illuminate\Support\Carbon;
use Illuminate\Support\Facades\App;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Cache;
use Illuminate\Support\Facades\Config;
use Illuminate\Support\Facades\Cookie;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Log;
use Illuminate\Support\Facades\Session;
use Illuminate\Support\Facades\URL;
use Illuminate\Support\Facades\View;
use Stoker\Internal\Channel;
use Stoker\Internal\Http\Handler;
use Stoker\Internal\Loop;
use Stoker\Laravel\RequestHandler;
use Stoker\Tests\Failure;
use Stoker\Wire\Codec;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Harness $harness */

/** The last error in the application's log. */
function lastError(): string
{
    return (string) current(array_slice(preg_grep('/production\.ERROR/', file(storage_path('laravel.log'))), -1));
}

$app = $harness->app;
$app['auth']->provider('tests', static fn () => new Users());
$handler = new RequestHandler($app);
$routes = $app['router'];
$visitor = static fn () => new Visitor($handler);

/** Adds a route that runs a closure with the session and cookies of the group "web", and asks for it. */
$ask = static function (\Closure $do, ?Visitor $by = null, string $query = '') use ($routes, $visitor): mixed {
    static $n = 0;
    $path = '/ask/' . ++$n;
    $routes->get($path, $do)->middleware('web');
    $by ??= $visitor();
    $body = $by->get($path . $query);
    $by->status === 200 or throw new Failure("status {$by->status}: " . lastError());

    return json_decode($body, true) ?? $body;
};

test('requests: a route gets the request', function () use ($routes, $visitor): void {
    $routes->post('/orders/{id}', static fn (Request $r, string $id) => [
        $id, $r->query('q'), $r->input('a'), $r->ip(), $r->isSecure(), $r->url(), url('/x'), $r->header('x-h'), $r->method(),
    ]);
    $v = $visitor();
    same(
        ['7', 'ü', ['b' => '1'], '203.0.113.7', true, 'https://shop.test/orders/7', 'https://shop.test/x', 'v', 'POST'],
        json_decode($v->get('/orders/7?q=%C3%BC', 'POST', "x-h: v\r\ncontent-type: application/x-www-form-urlencoded\r\n", 'a[b]=1'), true),
    );
    same([200, ['application/json']], [$v->status, $v->headers['content-type']]);
    $other = new Visitor((fn () => $this->handler)->call($v), 'other.test:8443');
    same('https://other.test:8443/x', json_decode($other->get('/orders/8', 'POST', "content-type: application/json\r\n", '{"a":[1]}'), true)[6]);
    same([1], json_decode($other->get('/orders/8', 'POST', "content-type: application/json\r\n", '{"a":[1]}'), true)[2]);
});

test('requests: each visitor has a session and a user of their own', function () use ($routes, $visitor): void {
    $routes->get('/count', static function (): string {
        Session::put('n', Session::get('n', 0) + 1);

        return Session::get('n') . ' ' . (Auth::id() ?? 'guest') . ' ' . (request()->user()?->getAuthIdentifier() ?? 'guest');
    })->middleware('web');
    $routes->get('/login/{id}', static fn (string $id) => (string) Auth::loginUsingId($id)->getAuthIdentifier())->middleware('web');
    [$ada, $bob] = [$visitor(), $visitor()];
    same(['1 guest guest', '1 guest guest', '2 guest guest'], [$ada->get('/count'), $bob->get('/count'), $ada->get('/count')]);
    same('ada', $ada->get('/login/ada'));
    same(['2 guest guest', '3 ada ada', '1 guest guest'], [$bob->get('/count'), $ada->get('/count'), $visitor()->get('/count')]);
    $bob->get('/login/bob');
    same(['4 ada ada', '3 bob bob'], [$ada->get('/count'), $bob->get('/count')]);
});

test('requests: bindings and singletons of a request are gone after it', function () use ($ask, $app): void {
    $app->singleton('tests.lazy', static fn () => new \stdClass());
    $app->scoped('tests.per-request', static fn () => new \stdClass());
    $app->make('tests.per-request')->used = true; // By a job, for example.
    $use = static function () use ($app): array {
        $seen = [app()->bound('tests.added'), isset(app('tests.lazy')->used), isset(app('tests.per-request')->used), app() !== $app, app('request') === request()];
        app()->instance('tests.added', 1);
        app('tests.lazy')->used = app('tests.per-request')->used = true;

        return $seen;
    };
    same([false, false, false, true, true], $ask($use));
    same([false, false, false, true, true], $ask($use));
    same([false, $app], [$app->bound('tests.added'), Container::getInstance()]);
});

test('requests: configuration, locale, views, URLs and contexts begin anew', function () use ($ask): void {
    $state = static fn (): array => [
        Config::get('app.name'), App::getLocale(), app('translator')->getLocale(), Carbon::getLocale(), View::shared('tests'), url('/'),
        Auth::getDefaultDriver(), Cache::store('array')->get('k'), count(Cookie::getQueuedCookies()), View::shared('app') === app(),
        Config::get('session.lifetime'), app('session')->getSessionConfig()['lifetime'],
    ];
    $fresh = ['tests', 'en', 'en', 'en', null, 'https://shop.test', 'web', null, 0, true, 120, 120];
    same($fresh, $ask($state));
    same(['changed', 'de', 'de', 'de', 1, 'http://forced.test', 'other', 2, 1, true, 7, 7], $ask(static function () use ($state): array {
        Config::set('app.name', 'changed');
        Config::set('session.lifetime', 7);
        App::setLocale('de');
        View::share('tests', 1);
        URL::forceRootUrl('http://forced.test');
        URL::forceScheme('http');
        Auth::shouldUse('other');
        Cache::store('array')->put('k', 2);
        Cookie::queue('queued', 'v');
        Log::withContext(['secret' => 'of another']);

        return $state();
    }));
    same($fresh, $ask($state));
    same([], $ask(static fn (): array => (fn () => $this->context ?? [])->call(Log::driver())), 'context of the log');
});

test('requests: a cookie that was queued by a request that failed is not sent to the next', function () use ($routes, $visitor, $ask): void {
    $routes->get('/queue-and-fail', static function (): never {
        Cookie::queue('leaked', 'v');
        throw new \DomainException('no');
    }); // Without the group "web", whose middleware sends the cookie.
    $v = $visitor();
    $v->get('/queue-and-fail');
    same(500, $v->status);
    $ask(static fn () => 'ok', $next = $visitor());
    holds(!str_contains(implode(' ', $next->headers['set-cookie'] ?? []), 'leaked'), 'cookies of the next');
});

test('requests: a controller is made for each request', function () use ($routes, $visitor): void {
    $routes->get('/controller', Controller::class);
    same(['[1,true,true]', '[1,true,true]'], [$visitor()->get('/controller'), $visitor()->get('/controller')]);
});

test('requests: pages belong to the request', function () use ($ask): void {
    PaginationState::resolveUsing(new Container()); // As another application would.
    $page = static fn (): array => [(new LengthAwarePaginator([1], 30, 10))->currentPage(), Paginator::resolveCurrentPath()];
    same(3, $ask($page, null, '?page=3')[0]);
    [$number, $path] = $ask($page);
    holds($number === 1 && str_starts_with($path, 'https://shop.test/ask/'), "$number $path");
});

test('requests: terminable middleware and callbacks run once, in the application of the request', function () use ($ask): void {
    TerminableMiddleware::$terminated = [];
    $seen = [];
    $ask(static function () use (&$seen): string {
        $mine = app();
        app()->terminating(static function () use (&$seen, $mine): void {
            $seen[] = app() === $mine;
        });

        return 'x';
    });
    $ask(static fn () => 'y');
    same([[true], 2], [$seen, count(TerminableMiddleware::$terminated)]);
    same([], preg_grep('/^ask\/\d+ 200$/D', TerminableMiddleware::$terminated, PREG_GREP_INVERT));
});

test('requests: exceptions are rendered and reported by the application', function () use ($routes, $visitor, $app): void {
    $routes->get('/fails', static fn () => throw new \DomainException('reported once'));
    file_put_contents($log = $app->storagePath() . '/laravel.log', ''); // It may be open, so it cannot be removed.
    $v = $visitor();
    same([500, '{"message":"Server Error"}'], [($body = $v->get('/fails', 'GET', "accept: application/json\r\n")) ? $v->status : 0, preg_replace('/\s+/', '', $body) === '{"message":"ServerError"}' ? '{"message":"Server Error"}' : $body]);
    same(1, substr_count(file_get_contents($log), 'production.ERROR: reported once'));
    $v->get('/nothing');
    same(404, $v->status);
    $v->get('/fails', 'PUT');
    same(405, $v->status);
    holds($app->make(ExceptionHandler::class) === $app->make(ExceptionHandler::class), 'one handler');
    same($app, (fn () => $this->container)->call($app->make(ExceptionHandler::class)));
});

test('requests: uploads can be validated and moved', function () use ($routes, $visitor, $app): void {
    $routes->post('/upload', static function (Request $r) use ($app): array {
        $r->validate(['doc' => 'required|file|max:10', 'none' => 'nullable|file']);
        $moved = $r->file('doc')->move($app->storagePath(), 'moved.txt');

        return [$r->file('doc')->getClientOriginalName(), $r->hasFile('none'), $r->input('a'), file_get_contents($moved->getPathname())];
    });
    $part = static fn (string $head, string $body) => "--b\r\nContent-Disposition: form-data; $head\r\n\r\n$body\r\n";
    $body = $part('name="doc"; filename="a.txt"', 'content') . $part('name="none"; filename=""', '') . $part('name="a"', '1') . '--b--';
    same(['a.txt', false, '1', 'content'], json_decode($visitor()->get('/upload', 'POST', "content-type: multipart/form-data; boundary=b\r\n", $body), true));
    $v = $visitor();
    $v->get('/upload', 'POST', "accept: application/json\r\ncontent-type: multipart/form-data; boundary=b\r\n", $part('name="doc"; filename="a"', str_repeat('x', 11 << 10)) . '--b--');
    same(422, $v->status);
    $v->get('/upload', 'POST', "content-type: multipart/form-data; boundary=b\r\n", 'malformed');
    same(400, $v->status);
    same([], glob(sys_get_temp_dir() . '/stoker-upload-*') ?: []);
});

test('requests: files and streams', function () use ($routes, $visitor, $app): void {
    $path = $app->storagePath() . '/moved.txt';
    file_put_contents($path, 'content');
    $routes->get('/download', static fn () => response()->download($path));
    $routes->get('/stream', static fn () => response()->stream(static function (): void {
        echo 'str';
        ob_flush();
        echo 'eam of ', request()->path();
    }));
    $v = $visitor();
    same(['', [realpath($path)]], [$v->get('/download'), $v->headers['x-sendfile']]);
    same('stream of stream', $v->get('/stream'));
});

test('requests: a stream is sent while it is produced, if the gateway accepts that', function () use ($routes, $handler): void {
    [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    stream_set_blocking($ours, false);
    $reader = new FrameReader();
    $sent = static fn (): array => array_map(static fn (Frame $f) => [$f->type, $f->flags, $f->body], $reader->feed((string) fread($ours, 65536)));
    $seen = [];
    $print = static function () use ($sent, &$seen): void {
        $seen[] = $sent();
        echo 'data: ', request()->path(), "\n\n";
        $seen[] = $sent();
    };
    $routes->get('/events', static fn () => response()->stream($print, 200, ['Content-Type' => 'text/event-stream']));
    $message = "GET https://shop.test/events HTTP/1.1\r\nhost: shop.test\r\n\r\n";
    $meta = Meta::encode([Key::CREDIT => Meta::u32(65536)]);
    fwrite($ours, Frame::of(Type::REQ, 0, Codec::HTTP, 3, 1, 0, 0, 'http:shop.request', $meta, $message)->encode());
    $loop = new Loop(new Channel($theirs), ['http:shop.request' => new Handler($handler)], []);
    Loop::$active = $loop;
    $loop->output->open();
    try {
        $loop->receive(5);
        $loop->end((new Handler($handler))($loop->beginNext()), null);
        $loop->served->finish();
    } finally {
        $loop->output->close();
        Loop::$active = null;
    }
    [$head] = $seen[0];
    same([Type::RES, Flag::MORE, true], [$head[0], $head[1], str_contains($head[2], "\r\ncontent-type: text/event-stream")]);
    same([[Type::DATA, Flag::MORE, 'data: '], [Type::DATA, Flag::MORE, 'events'], [Type::DATA, Flag::MORE, "\n\n"]], $seen[1]);
    same([[Type::DATA, 0, '']], $sent());
});

test('requests: a transaction that was left open is rolled back and reported', function () use ($ask, $app): void {
    file_put_contents($log = $app->storagePath() . '/laravel.log', ''); // It may be open, so it cannot be removed.
    $ask(static function (): string {
        DB::beginTransaction();

        return 'ok';
    });
    same(0, $ask(static fn () => DB::transactionLevel()));
    holds(str_contains(file_get_contents($log), 'has left a transaction of level 1 open'), 'it is in the log');
});

test('requests: afterwards the application is as before, also for jobs', function () use ($ask, $app, $harness): void {
    $outside = $app->make('request');
    $ask(static function (): string {
        Auth::loginUsingId('ada');
        App::setLocale('de');

        return 'ok';
    });
    same([true, null, 'en', 'UTC'], [$app->make('request') === $outside, Auth::id(), App::getLocale(), date_default_timezone_get()]);
    $seen = [];
    Act::reset(static function () use (&$seen): void {
        $seen = [Auth::id(), App::getLocale(), count(Cookie::getQueuedCookies())];
    });
    same(['done'], $harness->life(new Act()));
    same([null, 'en', 0], $seen);
});
