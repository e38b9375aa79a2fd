<?php

// What campaign/sites.py asks of a site, in all ways to answer. An answer begins with a line of JSON about the request, and ends with
// the CRC-32 of everything before, so that neither another request's answer nor a part of one passes for it.

declare(strict_types=1);

const RUNS = __DIR__ . '/../runs';
const PIECE = 65_536;

/** Records that a request has begun. */
function record(string $number): void
{
    file_put_contents(RUNS, "$number\n", FILE_APPEND);
}

function filler(string $number, int $size): string
{
    return substr(str_repeat(md5($number), intdiv($size, 32) + 1), 0, $size);
}

/** @param array<string, mixed> $seen */
function whole(array $seen, string $number, int $fill): string
{
    $text = json_encode($seen, JSON_UNESCAPED_SLASHES) . "\n" . filler($number, $fill) . "\n";

    return $text . sprintf('%08x', crc32($text));
}

/** @return iterable<string> pieces that together are an answer, too */
function pieces(array $seen, string $number, int $count, int $size, int $pauseMs, callable $rest): iterable
{
    $sum = hash_init('crc32b');
    for ($at = 0; $at <= $count; $at++) {
        $piece = $at === 0 ? json_encode($seen, JSON_UNESCAPED_SLASHES) . "\n" : filler($number, $size) . "\n";
        hash_update($sum, $piece);
        yield $piece;
        if ($pauseMs > 0 && !$rest($pauseMs / 1_000)) {
            yield 'asked to end';

            return;
        }
    }
    yield hash_final($sum);
}

/** @param resource $stream */
function sum_of($stream): array
{
    $sum = hash_init('crc32b');
    $size = 0;
    while (($part = (string) fread($stream, PIECE)) !== '') {
        $size += strlen($part);
        hash_update($sum, $part);
    }

    return [$size, hash_final($sum)];
}

/** Waits, or ends the process without an answer, as the query demands. */
function obey(array $query): void
{
    if (isset($query['wait'])) {
        usleep(1_000 * (int) $query['wait']);
    }
    if (isset($query['die'])) {
        posix_kill(getmypid(), SIGKILL);
    }
}
