<?php

declare(strict_types=1);

// A program of the crash campaign that runs one job, without the SDK. It keeps the same ledger as worker.php.

$ledger = fopen(getenv('CAMPAIGN_LEDGER'), 'a') ?: exit(3);
stream_set_write_buffer($ledger, 0);
$note = static function (string $line) use ($ledger): void {
    fwrite($ledger, "$line\n") === strlen($line) + 1 || exit(3);
};
$hurry = getenv('CAMPAIGN_LEDGER') . '-hurry'; // exists once only the remaining jobs are to be done
$fact = static fn (string $name): string => (string) ($_SERVER["STOKER_$name"] ?? '');

$job = json_decode(file_get_contents(PHP_SAPI === 'cli' ? 'php://stdin' : 'php://input'), true, 16, JSON_THROW_ON_ERROR);
$tag = getmypid() . '.' . hrtime(true) . '.1';
$note(sprintf('S %s %d %s %d %d %d', $tag, hrtime(true), $fact('ID'), $job['n'], $fact('ATTEMPT'), $fact('CRASHES')));
if ($job['ms'] > 0) {
    usleep(is_file($hurry) ? min(1000, (int) ($job['ms'] * 1000)) : (int) ($job['ms'] * 1000));
}
if ((int) $fact('ATTEMPT') >= ($job['fail'] ?? 0)) {
    $note("E $tag " . hrtime(true) . ' done');
    exit(0);
}
$note("E $tag " . hrtime(true) . ' failed');
if (($job['how'] ?? '') === 'release') {
    http_response_code(503);
    exit(75);
}
throw new RuntimeException('as it was told');
