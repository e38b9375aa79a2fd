<?php

declare(strict_types=1);

// A worker of the crash campaign. It records its runs in a ledger of its own, one line per write: that a run has
// started and, before Stoker receives the outcome, how the run ended.

require getenv('CAMPAIGN_SDK') . '/autoload.php';

$ledger = fopen(getenv('CAMPAIGN_LEDGER'), 'a') ?: exit(3);
stream_set_write_buffer($ledger, 0);
$note = static function (string $line) use ($ledger): void {
    fwrite($ledger, "$line\n") === strlen($line) + 1 || exit(3);
};
$pid = getmypid();
$hurry = getenv('CAMPAIGN_LEDGER') . '-hurry'; // exists once only the remaining jobs are to be done
$runs = 0;

$run = static function (Stoker\Task $task) use ($note, $pid, $hurry, &$runs): void {
    $job = $task->json();
    $tag = $pid . '.' . hrtime(true) . '.' . ++$runs;
    $note(sprintf('S %s %d %s %d %d %d', $tag, hrtime(true), $task->jobId(), $job['n'], $task->attempt, $task->crashes()));
    if (($job['how'] ?? '') === 'ack') {
        $task->ack();
        $note("A $tag " . hrtime(true));
    }
    if ($job['ms'] > 0) {
        usleep(is_file($hurry) ? min(1000, (int) ($job['ms'] * 1000)) : (int) ($job['ms'] * 1000));
    }
    if ($task->attempt >= ($job['fail'] ?? 0)) {
        $note("E $tag " . hrtime(true) . ' done');

        return;
    }
    $note("E $tag " . hrtime(true) . ' failed');
    if (($job['how'] ?? '') === 'release') {
        $task->release(0.02, 'not yet');

        return;
    }
    throw new RuntimeException('as it was told');
};

Stoker\Worker::create()->onJob('*', $run)->run();
