<?php

// Tests a real worker process that answers in parts, with the test as its server.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Codec;
use Stoker\Wire\Flag;
use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

function partsProbe(string ...$arguments): Probe
{
    return (new Probe($arguments, [], 'parts.php'))->welcome();
}

/** @return array<int, string> metadata of a REQ whose answer may be sent in parts */
function creditOf(int $bytes): array
{
    return [Key::CREDIT => Meta::u32($bytes)];
}

/** A call of t.write. */
function writes(array $pieces, ?int $credit, mixed $end = null, int $id = 1): Frame
{
    return Probe::call('t.write', json_encode(['pieces' => $pieces, 'end' => $end]), $id, 0, $credit === null ? [] : creditOf($credit));
}

function grantOf(int $bytes, int $id = 1): Frame
{
    return Frame::of(Type::CREDIT, id: $id, ttl: $bytes);
}

/** Type, flags, status, and body of a frame. */
function brief(Frame $frame): array
{
    return [$frame->type, $frame->flags, $frame->code, $frame->body];
}

/**
 * Reads frames of an answer up to its last part.
 *
 * @param array<int, Frame>|null $events receives the other frames
 * @return array{list<string>, Frame} bodies of the parts with MORE, and the last part
 */
function partsOf(Probe $probe, ?array &$events = null): array
{
    $events = $bodies = [];
    do {
        $frame = $probe->next();
        if ($frame->type !== Type::RES && $frame->type !== Type::DATA) {
            $events[] = $frame;
        } elseif ($frame->flags === Flag::MORE) {
            same([0, 0, 1], [$frame->code, $frame->ttl, $frame->id]);
            $bodies[] = $frame->body;
        } else {
            same(Type::DATA, $frame->type);

            return [$bodies, $frame];
        }
    } while (true);
}

const HTML_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=UTF-8\r\n\r\n";
const MORE_RES = [Type::RES, Flag::MORE, 0];
const MORE_DATA = [Type::DATA, Flag::MORE, 0];
const LAST = [Type::DATA, 0, 0];
const CANCELLED = [Type::DATA, 0, 1, 'the caller is no longer waiting'];

test('parts: a call that writes answers in parts', function (): void {
    $probe = partsProbe();
    $probe->send(writes(['one', '', 'two'], 1000));
    same([...MORE_RES, 'one'], brief($first = $probe->next()));
    same(Codec::RAW, $first->prio);
    same([...MORE_DATA, 'two'], brief($probe->next()));
    same([...LAST, ''], brief($last = $probe->next()));
    holds($last->ttl > 0 && $last->prio === 0 && $last->meta === '', 'the duration, and nothing else');
    $probe->send(writes(['one'], 1000, 'end'));
    same([['one'], [...LAST, 'end']], [($got = partsOf($probe))[0], brief($got[1])], 'a string that is returned is the end');
    $probe->send(writes(['one'], 3, 'end'));
    same('one', $probe->next()->body);
    $probe->send(grantOf(3));
    same([['end'], [...LAST, '']], [($got = partsOf($probe))[0], brief($got[1])], 'which needs credit, too');
    $probe->send(writes([str_repeat('x', 150_000)], 1 << 20));
    same([[65536, 65536, 18928], [...LAST, '']], [array_map('strlen', ($got = partsOf($probe))[0]), brief($got[1])]);
    $probe->send(writes(['one'], 1000, 7));
    same(['one'], ($got = partsOf($probe))[0]);
    same([64, 'UnexpectedValueException'], [$got[1]->code, Meta::decode($got[1]->meta)[Key::ERROR_CLASS]]);
    same([Type::RES, 0, 0, '7'], brief($probe->ask(writes([], 1000, 7))), 'nothing was written');
});

test('parts: without credit, what a call writes is collected', function (): void {
    $probe = partsProbe();
    same([Type::RES, 0, 0, 'onetwo'], brief($probe->ask(writes(['one', 'two'], null))));
    same([Type::RES, 0, 0, 'onetwo'], brief($probe->ask(writes(['one'], null, 'two'))));
    same(64, $probe->ask(writes(['one'], null, 7))->code);
    same([Type::RES, 0, 64], array_slice(brief($probe->ask(Probe::call('t.throw'))), 0, 3));
    same([64, 'LogicException'], [($job = $probe->ask(Probe::job('jobs')))->code, Meta::decode($job->meta)[Key::ERROR_CLASS]]);
});

test('parts: no more is sent than was granted; meanwhile the worker reads', function (): void {
    $probe = partsProbe();
    $probe->send(writes(['0123456789'], 4));
    same([...MORE_RES, '0123'], brief($probe->next()));
    $probe->send(Frame::of(Type::PING, id: 7), writes(['later'], null, null, 2), grantOf(99, 2), Frame::of(Type::GOAWAY));
    same([Type::PONG, 7], [($pong = $probe->next())->type, $pong->id], 'nothing else is sent');
    $probe->send(grantOf(1));
    same([...MORE_DATA, '4'], brief($probe->next()));
    $probe->send(grantOf(2), grantOf(2));
    same([...MORE_DATA, '5678'], brief($probe->next()));
    $probe->send(grantOf(100));
    same([...MORE_DATA, '9'], brief($probe->next()));
    same([...LAST, ''], brief($probe->next()));
    same([[Type::RES, 0, 0, 'later'], 2], [brief($later = $probe->next()), $later->id], 'the task that was put aside');
    same([[], 0], [$probe->rest(), $probe->exitCode()], 'GOAWAY was remembered');
});

test('parts: CANCEL ends a wait for credit', function (): void {
    foreach ([[], ['soft']] as $arguments) {
        $probe = partsProbe(...$arguments);
        $probe->send(Probe::call('t.tick', meta: creditOf(12)));
        while (($frame = $probe->next())->body !== 'ti'); // The part that uses up the credit.
        same(MORE_DATA, array_slice(brief($frame), 0, 3));
        $probe->send(Frame::of(Type::CANCEL, id: 1));
        [$bodies, $last] = partsOf($probe, $events);
        same([[], CANCELLED], [$bodies, brief($last)]);
        same("cancelled\nlate\ncleaned up\n", Probe::logged($events, 1, 2));
        same('later', $probe->ask(writes(['later'], null))->body, 'the next task is not cancelled');
    }
});

test('parts: CANCEL is noticed between two writes', function (): void {
    $probe = partsProbe();
    $probe->send(Probe::call('t.tick', meta: creditOf(1 << 20)));
    same(["tick\n", "tick\n"], [$probe->next()->body, $probe->next()->body]);
    $probe->send(Frame::of(Type::CANCEL, id: 1));
    same(CANCELLED, brief(partsOf($probe, $events)[1]));
    same("cancelled\nlate\ncleaned up\n", Probe::logged($events, 1, 2));
});

test('parts: a soft cancel ends a task that has begun its answer', function (): void {
    $probe = partsProbe('soft');
    $probe->send(Probe::call('t.spin', meta: creditOf(100)));
    same([...MORE_RES, 'begun'], brief($probe->next()));
    $probe->send(Frame::of(Type::CANCEL, id: 1));
    posix_kill($probe->pid, SIGUSR1);
    same([[], CANCELLED], [($got = partsOf($probe, $events))[0], brief($got[1])]);
    same("cancelled\ntime is up\n", Probe::logged($events, 1, 2));
});

test('parts: exceptions after the first part', function (): void {
    $probe = partsProbe();
    $probe->send(Probe::call('t.throw', meta: creditOf(3)));
    [$bodies, $last] = partsOf($probe);
    same([['one'], 64, 'too late', 'DomainException'], [$bodies, $last->code, strtok($last->body, "\n"), Meta::decode($last->meta)[Key::ERROR_CLASS]]);
    $probe->send(Probe::call('t.fork', meta: creditOf(100)));
    same([['of the parent'], [...LAST, ', child: 7']], [($got = partsOf($probe))[0], brief($got[1])]);
    $probe->send(Probe::call('t.returned', meta: creditOf(100)));
    same([['one'], 64], [($got = partsOf($probe))[0], $got[1]->code], 'an answer that has begun is not returned');
    same([Type::GOAWAY], array_map(static fn (Frame $f) => $f->type, $probe->rest()), 'but the worker leaves');
});

test('parts: the end of the connection ends an answer', function (): void {
    $probe = partsProbe();
    $probe->send(Probe::call('t.tick', meta: creditOf(10)));
    same(["tick\n", "tick\n"], [$probe->next()->body, $probe->next()->body]);
    $probe->halfClose();
    same(0, $probe->exitCode());
});

test('parts of a response: the head is sent before the body exists', function (): void {
    $probe = partsProbe();
    $probe->send(req('/rest', meta: creditOf(65536)));
    same([...MORE_RES, HTML_HEAD], brief($first = $probe->next()));
    same(Codec::HTTP, $first->prio);
    $probe->send(Frame::of(Type::GOAWAY)); // Ends Task::rest().
    same([...MORE_DATA, 'rested'], brief($probe->next()));
    same([...LAST, ''], brief($probe->next()));
});

test('parts of a response: each piece is sent at once, and the client that has gone is noticed', function (): void {
    $probe = partsProbe();
    $probe->send(req('/events', meta: creditOf(1 << 20)));
    same([HTML_HEAD, "data: 1\n\n", "data: 2\n\n"], [$probe->next()->body, $probe->next()->body, $probe->next()->body]);
    $probe->send(Frame::of(Type::CANCEL, id: 1));
    same(CANCELLED, brief(partsOf($probe, $events)[1]));
    same("finally\n", Probe::logged($events, 1, 2), 'before the last part');
    $probe->send(req('/swallow', meta: creditOf(strlen(HTML_HEAD) + 1)));
    same([HTML_HEAD, 'x'], [$probe->next()->body, $probe->next()->body]);
    $probe->send(Frame::of(Type::CANCEL, id: 1));
    same([[], CANCELLED], [($got = partsOf($probe))[0], brief($got[1])]);
});

test('parts of a response: rest() ends when the client has gone', function (): void {
    $probe = partsProbe();
    $probe->send(req('/pause', meta: creditOf(1 << 20)));
    same([HTML_HEAD, 'one'], [$probe->next()->body, $probe->next()->body]);
    $probe->send(Frame::of(Type::CANCEL, id: 1));
    same([[], CANCELLED], [($got = partsOf($probe, $events))[0], brief($got[1])]);
    same("cancelled\nrested: false\n", Probe::logged($events, 1, 2));
});

test('parts of a response: without credit for its head, the body is collected', function (): void {
    $probe = partsProbe();
    foreach ([[], creditOf(strlen(HTML_HEAD) - 1)] as $meta) {
        same([Type::RES, 0, 0, HTML_HEAD . 'one two'], brief($probe->ask(req('/', meta: $meta))));
        same('HTTP/1.1 200 OK', strtok($probe->ask(req('/trailers', meta: []))->body, "\r"));
    }
    same([Type::RES, 0, 0, HTML_HEAD . 'a string'], brief($probe->ask(req('/string', meta: creditOf(1 << 20)))), 'a string is sent whole');
});

test('parts of a response: responses without a body do not produce one', function (): void {
    $probe = partsProbe();
    same([Type::RES, 0, 0, HTML_HEAD], brief($probe->ask(req('/throw', 'HEAD', meta: creditOf(1 << 20)))));
    foreach (['204' => 'No Content', '304' => 'Not Modified'] as $status => $reason) {
        same([Type::RES, 0, 0, "HTTP/1.1 $status $reason\r\n\r\n"], brief($probe->ask(req("/status?$status", meta: creditOf(1 << 20)))));
    }
});

test('parts of a response: trailers, and objects as bodies', function (): void {
    $probe = partsProbe();
    $probe->send(req('/trailers', meta: creditOf(1 << 20)));
    same([["HTTP/1.1 200 OK\r\nx: y\r\ntrailer: x-rows, a\r\n\r\n", 'one ', 'two'], [...LAST, '']], [($got = partsOf($probe))[0], brief($got[1])]);
    same([Key::TRAILERS => "x-rows: 2\r\na: 1\r\na: 2\r\n"], Meta::decode($got[1]->meta));
    $probe->send(req('/objects', meta: creditOf(1 << 20)));
    same(["HTTP/1.1 200 OK\r\n\r\n", 'object'], partsOf($probe)[0]);
});

test('parts of a response: an announced length is passed on', function (): void {
    $probe = partsProbe();
    $probe->send(req('/length', meta: creditOf(1 << 20)));
    same(["HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n", 'one ', 'two'], partsOf($probe)[0]);
    same("HTTP/1.1 200 OK\r\n\r\none two", $probe->ask(req('/length', meta: []))->body);
    same("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n", $probe->ask(req('/length', 'HEAD', meta: creditOf(1 << 20)))->body);
});

test('parts of a response: exit() after the head', function (): void {
    $probe = partsProbe();
    $probe->send(req('/exit', meta: creditOf(1 << 20)));
    same([[HTML_HEAD, 'one'], Status::APPLICATION], [($got = partsOf($probe))[0], $got[1]->code]);
    holds(str_starts_with($got[1]->body, 'exit() or die() was called while http:shop.request ran'), $got[1]->body);
    holds(str_contains(Meta::decode($got[1]->meta)[Key::ERROR_PLACE] ?? '', 'parts.php'), 'the place of the handler of the application');
    same([[Type::GOAWAY, 0, 0]], frames(...$probe->rest()));
});

test('parts of a response: exceptions after the head', function (): void {
    $probe = partsProbe();
    foreach (['/throw' => 'DomainException', '/bad' => 'Stoker\Http\BadRequest', '/number' => 'UnexpectedValueException'] as $path => $class) {
        $probe->send(req($path, meta: creditOf(1 << 20)));
        [$bodies, $last] = partsOf($probe);
        same([$path === '/number' ? [HTML_HEAD] : [HTML_HEAD, 'one'], 64, $class], [$bodies, $last->code, Meta::decode($last->meta)[Key::ERROR_CLASS]]);
    }
    same('{"ob":1,"handler":null}', explode("\r\n\r\n", $probe->ask(req('/state'))->body)[1]);
});

test('parts of a response: afterResponse() runs after the last part', function (): void {
    $probe = partsProbe();
    $probe->send(req('/after', meta: creditOf(1 << 20)));
    same([HTML_HEAD, 'one ', 'two'], partsOf($probe)[0]);
    $probe->halfClose();
    same("after the response\n", $probe->stdout());
});

test('parts of a response: a large body takes little memory', function (): void {
    $probe = partsProbe();
    $probe->send(req('/big', meta: creditOf(1 << 18)));
    same(HTML_HEAD, $probe->next()->body);
    $probe->send(grantOf(strlen(HTML_HEAD)));
    for ($size = 0; ($frame = $probe->next())->flags === Flag::MORE; $size += strlen($frame->body)) {
        same(Type::DATA, $frame->type);
        $size < 50 * (1 << 20) - (1 << 18) && $probe->send(grantOf(strlen($frame->body)));
    }
    same([50 << 20, [...LAST, '']], [$size, brief($frame)]);
    $peak = (int) explode("\r\n\r\n", $probe->ask(req('/memory'))->body)[1];
    holds($peak < 8 << 20, "peak of $peak bytes");
});

if (!stream_resolve_include_path('Nyholm/Psr7/autoload.php') || !stream_resolve_include_path('Symfony/Component/HttpFoundation/autoload.php')) {
    echo "php-nyholm-psr7 or php-symfony-http-foundation is not installed: the tests of their streams are skipped.\n";

    return;
}

test('parts of a response: what Symfony\'s StreamedResponse prints is sent at once', function (): void {
    $probe = partsProbe();
    $probe->send(req('/symfony', meta: creditOf(1 << 20)));
    holds(str_contains($probe->next()->body, "\r\ncontent-type: text/event-stream\r\n"), 'the head');
    same([...MORE_DATA, 'one '], brief($probe->next()));
    $probe->send(Frame::of(Type::GOAWAY)); // Ends Task::rest().
    same([['two', ' three'], [...LAST, '']], [($got = partsOf($probe))[0], brief($got[1])]);
});

test('parts of a response: StreamedResponse notices that its client has gone', function (): void {
    $probe = partsProbe();
    $probe->send(req('/symfony/endless', meta: creditOf(1 << 20)));
    $probe->next();
    same(["data: 1\n\n", "data: 2\n\n"], [$probe->next()->body, $probe->next()->body]);
    $probe->send(Frame::of(Type::CANCEL, id: 1));
    same(CANCELLED, brief(partsOf($probe, $events)[1]));
    same(['', "finally\n"], [Probe::logged($events, 1), Probe::logged($events, 1, 2)], 'and nothing of the body is in the log');
    same('{"ob":1,"handler":null}', explode("\r\n\r\n", $probe->ask(req('/state'))->body)[1]);
});

test('parts of a response: streams of PSR-7', function (): void {
    $probe = partsProbe();
    $probe->send(req('/psr?100000', meta: creditOf(1 << 20)));
    same(["HTTP/1.1 200 OK\r\nx: y\r\n\r\n", str_repeat('p', 65536), str_repeat('p', 34464)], array_values(array_filter(partsOf($probe)[0])));
    same("HTTP/1.1 200 OK\r\nx: y\r\n\r\nppp", $probe->ask(req('/psr?3', meta: creditOf(1 << 20)))->body, 'a small one is sent whole');
    same(100_000, strlen(explode("\r\n\r\n", $probe->ask(req('/psr?100000'))->body)[1]), 'and without credit each');
});
