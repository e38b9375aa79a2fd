<?php

// Tests the parser of multipart/form-data, with whole bodies and with one that arrives in pieces.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Http\BadRequest;
use Stoker\Http\Request;
use Stoker\Http\UploadedFile;
use Stoker\Internal\Http\Multipart;
use Stoker\Internal\Http\PartHeader;
use Stoker\Internal\Http\Uploads;
use Stoker\Wire\Key;

/** The body of a form with the boundary "b", from the header and the content of each part. */
function parts(array ...$parts): string
{
    return implode('', array_map(static fn (array $one) => "--b\r\nContent-Disposition: form-data; $one[0]\r\n\r\n$one[1]\r\n", $parts)) . "--b--\r\n";
}

function upload(string $body, string $type = 'multipart/form-data; boundary=b'): Request
{
    return Request::create('POST', 'http://a/', ['content-type' => $type], $body);
}

test('multipart: fields and files, with nested names', function (): void {
    $r = upload(parts(
        ['name="plain"', 'one'],
        ['name="l[]"', '1'],
        ['name="l[]"', "2\r\n"],
        ['name="m[k][x]"', ''],
        ["name=\"doc\"; filename=\"C:\\dir\\a \\\"b\\\".txt\"\r\nContent-Type: text/x", "\r\n--a\0content"],
        ['name="pics[]"; filename="1.png"', 'p1'],
        ['name="pics[]"; filename="up/2.png"', 'p22'],
        ['name="none"; filename=""', ''],
    ));
    same(['plain' => 'one', 'l' => ['1', "2\r\n"], 'm' => ['k' => ['x' => '']]], $r->form());
    $files = $r->files();
    same(['doc', 'pics', 'none'], array_keys($files));
    $doc = $files['doc'];
    same(['a "b".txt', 'C:\dir\a "b".txt', 'text/x', 13, UPLOAD_ERR_OK], [$doc->name, $doc->fullPath, $doc->type, $doc->size, $doc->error]);
    same("\r\n--a\0content", $doc->contents());
    same(0600, fileperms($doc->path) & 0777, 'only this user may read it');
    same(['1.png', '2.png', 'p1', 'p22', 'up/2.png'], [$files['pics'][0]->name, $files['pics'][1]->name, $files['pics'][0]->contents(), $files['pics'][1]->contents(), $files['pics'][1]->fullPath]);
    same([UPLOAD_ERR_NO_FILE, false, ''], [$files['none']->error, $files['none']->isValid(), $files['none']->path]);
    throws(\RuntimeException::class, fn () => $files['none']->contents());
    $paths = [$doc->path, $files['pics'][0]->path];
    $doc->moveTo($target = $doc->path . '-moved');
    same([true, 0666 & ~umask(), false], [is_file($target), fileperms($target) & 0777, $doc->isValid()]);
    throws(\RuntimeException::class, fn () => $doc->moveTo($target));
    $r->finish();
    same([false, false, true], [is_file($paths[0]), is_file($paths[1]), is_file($target)]);
    unlink($target);
});

test('multipart: files are removed with the request, but not by a child', function (): void {
    $r = upload(parts(['name="f"; filename="f"', 'x']));
    $path = $r->files()['f']->path;
    pcntl_waitpid(Processes::fork(static function () use ($r): void {
        $r->finish();
        posix_kill(getmypid(), SIGKILL);
    }), $status);
    same(true, is_file($path));
    unset($r);
    same(false, is_file($path));
});

test('multipart: the body may be split anywhere', function (): void {
    $body = "preamble\r\n" . parts(['name="a"', "x\r\n--not\r\n-"], ['name="f"; filename="f"', str_repeat("\r\n--", 30)], ['name="c"', '']) . 'epilogue';
    for ($piece = 1; $piece <= 40; $piece++) {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        fwrite($ours, $body);
        fclose($ours);
        // A chunk size limits what one read returns.
        stream_set_chunk_size($theirs, $piece);
        stream_set_read_buffer($theirs, 0);
        $parsed = new Multipart($theirs, 'b', $uploads = new Uploads());
        same([['a', "x\r\n--not\r\n-"], ['c', '']], $parsed->fields, "pieces of $piece");
        same(str_repeat("\r\n--", 30), $parsed->files[0][1]->contents());
        $uploads->remove();
    }
});

test('multipart: a large file in a body file goes through little memory', function (): void {
    $path = tempnam(sys_get_temp_dir(), 'stoker-php-body-');
    $out = fopen($path, 'wb');
    $limit = 1900 << 10; // Below the usual upload_max_filesize of 2M.
    foreach (range(1, 15) as $n) {
        fwrite($out, "--b\r\ncontent-disposition: form-data; name=\"f[]\"; filename=\"$n\"\r\n\r\n" . str_repeat(chr($n), $limit) . "\r\n");
    }
    fwrite($out, '--b--');
    fclose($out);
    $canMeasure = function_exists('memory_reset_peak_usage'); // Since PHP 8.2.
    $canMeasure && memory_reset_peak_usage();
    $before = memory_get_usage();
    $r = Request::create('POST', 'http://a/', ['content-type' => 'multipart/form-data; boundary="b"'], '', meta: [Key::BODY_FILE => $path]);
    same([15, $limit], [count($r->files()['f']), $r->files()['f'][14]->size]);
    holds(!$canMeasure || memory_get_peak_usage() - $before < 2 << 20, 'peak ' . (memory_get_peak_usage() - $before));
    same(str_repeat(chr(15), $limit), $r->files()['f'][14]->contents());
    unlink($path);
});

test('multipart: a file above upload_max_filesize has an error and is not kept', function (): void {
    $r = upload(parts(['name="big"; filename="b"', str_repeat('x', (2 << 20) + 1)], ['name="a"', '1']));
    same([UPLOAD_ERR_INI_SIZE, '', 0], [$r->files()['big']->error, $r->files()['big']->path, $r->files()['big']->size]);
    same(['a' => '1'], $r->form());
    holds(str_contains(throws(\RuntimeException::class, fn () => $r->files()['big']->contents())->getMessage(), 'upload_max_filesize'), 'message');
});

test('multipart: limits and malformed bodies are a BadRequest, and leave no file', function (): void {
    $before = glob(sys_get_temp_dir() . '/stoker-upload-*');
    $limit = (int) ini_get('max_input_vars');
    $many = array_fill(0, $limit, ['name="a"', '']);
    same(['a' => ''], upload(parts(...$many))->form());
    $file = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nx\r\n";
    $bodies = [
        'too many parts' => parts(['name="f"; filename="f"', 'x'], ...$many),
        'no last boundary' => substr(parts(['name="a"', '1']), 0, -5),
        'nothing' => '',
        'no boundary' => 'text',
        'a header without end' => "$file--b\r\nContent-Disposition: form-data; name=\"a\"",
        'a header that is too long' => "$file--b\r\nX: " . str_repeat('x', 16384) . "\r\n\r\n\r\n--b--",
        'a line without colon' => "$file--b\r\nContent-Disposition\r\n\r\n\r\n--b--",
        'no disposition' => "$file--b\r\nContent-Type: text/plain\r\n\r\n\r\n--b--",
        'another disposition' => "$file--b\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n\r\n--b--",
        'no name' => "$file--b\r\nContent-Disposition: form-data; filename=\"name=x\"\r\n\r\n\r\n--b--",
        'a longer boundary' => "$file--bx\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--b--",
    ];
    foreach ($bodies as $what => $body) {
        same(400, throws(BadRequest::class, fn () => upload($body)->form())->status, $what);
    }
    foreach (['multipart/form-data', 'multipart/form-data; boundary=', 'multipart/form-data; boundary=' . str_repeat('b', 71)] as $type) {
        throws(BadRequest::class, fn () => upload(parts(['name="a"', '1']), $type)->form());
    }
    same(413, throws(BadRequest::class, fn () => upload(parts(['name="f"; filename="f"', 'x'], ['name="a"', str_repeat('x', (8 << 20) + 1)]))->form())->status);
    same($before, glob(sys_get_temp_dir() . '/stoker-upload-*'));
});

test('multipart: parameters of a header field', function (): void {
    $get = PartHeader::parameter(...);
    same(['b', 'b c', 'b', null, ''], [$get('x; boundary=b', 'boundary'), $get('x; BOUNDARY="b c"; y=1', 'boundary'), $get('x;a="; boundary=no";boundary=b ;c', 'boundary'), $get('boundary=b', 'boundary'), $get('x; boundary=""', 'boundary')]);
    same(['a"b\c', 'C:\d\e', '\\'], [$get('f; n="a\"b\\\\c"', 'n'), $get('f; n="C:\d\e"', 'n'), $get('f; n="\\\\"', 'n')]);
    same(null, $get('f; filename="name=x"', 'name'));
});

test('multipart: the name of a file has no path', function (): void {
    $name = static fn (string $path) => (new UploadedFile($path, '', '', 0, 0))->name;
    same(['a', 'a', 'a', '', 'a.b', ''], array_map($name, ['a', '/x/a', 'C:\x\a', 'x/', 'a.b', '']));
});
