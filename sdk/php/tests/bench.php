<?php

// php sdk/php/tests/bench.php: measures tasks per second of one worker, with 1, 16 and 64 frames per write.
//
// The driver is written in PHP too and shares the machine, so compare ratios, not absolute values. "floor" is a
// worker of a dozen lines that only parses, packs and writes.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

require __DIR__ . '/../src/autoload.php';
require __DIR__ . '/support/Processes.php';

/** @return array{float, float} tasks per second, and CPU time of the worker per task in µs */
function measure(string $script, string $name, string $meta, int $batch, string $body, int $answerSize, float $seconds): array
{
    $before = childrenSeconds();
    [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    [$process] = Processes::php([$script], [1 => ['file', '/dev/null', 'w'], 2 => STDERR, 3 => $theirs], ['STOKER_FD' => '3']);
    fclose($theirs);
    stream_set_chunk_size($ours, 65536);
    $head = fread($ours, 65536);
    fwrite($ours, Frame::of(Type::WELCOME, body: '{"v":1}')->encode());
    $frames = '';
    for ($id = 1; $id <= $batch; $id++) {
        $frames .= Frame::of(Type::REQ, prio: 3, id: $id, ttl: 60000, name: $name, meta: $meta, body: $body)->encode();
    }
    $want = $batch * (Frame::HEADER + $answerSize);
    $start = hrtime(true);
    $tasks = 0;
    do {
        fwrite($ours, $frames);
        for ($got = 0; $got < $want; $got += strlen($bytes)) {
            $bytes = fread($ours, 65536);
            $bytes === '' || $bytes === false and exit("the worker is gone\n");
        }
        $tasks += $batch;
        $now = hrtime(true);
    } while ($now - $start < $seconds * 1e9);
    fclose($ours);
    Processes::endAll();

    return [$tasks / (($now - $start) / 1e9), (childrenSeconds() - $before) * 1e6 / $tasks];
}

function childrenSeconds(): float
{
    $u = getrusage(1);

    return $u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec'] + ($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6;
}

$job = Meta::encode([16 => str_repeat("\1", 16), 19 => "\0\3"]);
$text = str_repeat('x', 64);
$client = Meta::encode([38 => '203.0.113.7:51234']);
$fields = implode('', array_map(static fn (int $n) => "x-field-$n: the value of a field\r\n", range(1, 10)));
$request = "GET https://example.com/path?a=1 HTTP/1.1\r\nhost: example.com\r\n$fields\r\n";
$answer = strlen("HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=UTF-8\r\n\r\nhello");
$rows = [
    ['floor', __DIR__ . '/fixtures/floor.php', 'bench.echo', '', $text, 64],
    ['call, echo of a string', __DIR__ . '/fixtures/bench.php', 'bench.echo', '', $text, 64],
    ['job, nothing', __DIR__ . '/fixtures/bench.php', 'bench', $job, $text, 0],
    ['call, JSON to JSON', __DIR__ . '/fixtures/bench.php', 'bench.json', '', $text, 11],
    ['request, hello', __DIR__ . '/fixtures/bench.php', 'http:hello.request', $client, $request, $answer],
    ['request, path and header', __DIR__ . '/fixtures/bench.php', 'http:header.request', $client, $request, $answer],
];
printf("%-26s%20s%20s%20s\n", 'tasks/s, worker µs/task', 'one per write', '16', '64');
foreach ($rows as [$label, $script, $name, $meta, $body, $answerSize]) {
    $cells = [];
    foreach ([1, 16, 64] as $batch) {
        $runs = [];
        for ($i = 0; $i < 5; $i++) {
            $runs[] = measure($script, $name, $meta, $batch, $body, $answerSize, (float) ($argv[1] ?? 0.5));
        }
        sort($runs);
        $cells[] = sprintf('%s %6.2f', number_format($runs[2][0]), min(array_column($runs, 1)));
    }
    printf("%-26s%20s%20s%20s\n", $label, ...$cells);
}
