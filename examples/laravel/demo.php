<?php

// Thousands of Laravel jobs and calls through Stoker while its workers are being killed, then the same hello jobs
// through Laravel's own queue:work. Exits with 1 when anything was lost.
//
//     php demo.php path/to/stoker [--skip-baseline]

require __DIR__ . '/bootstrap/autoload.php';

use Demo\{Baseline, Broker, Contender, Figures, Progress, Storm, Workspace};

$binary = realpath($argv[1] ?? '');
if ($binary === false) {
    fwrite(STDERR, "usage: php demo.php path/to/stoker [--skip-baseline]\n");
    exit(2);
}

$progress = new Progress();
$workspace = Workspace::forThisRun();
$progress->say('starting the broker and its workers');
$broker = new Broker($binary, $workspace->path);
$broker->awaitReady(20);

$storm = new Storm($broker, $workspace->ledger(), $progress);
$storm->run(40);
$progress->clear();
printf("Everything below went through 2 workers in %.1f s; %d of them were killed by SIGKILL meanwhile.\n\n", $storm->seconds, $storm->killed);
echo $storm->report(), "\n";

$progress->say('measuring hello jobs alone');
$figures = [(new Contender($broker, $workspace))->measure(4000)];
if (! $broker->stop()) {
    fwrite(STDERR, "The broker did not drain in time:\n" . $broker->logTail());
    exit(1);
}
if (! in_array('--skip-baseline', $argv, true)) {
    $baseline = new Baseline($workspace);
    $progress->say('measuring queue:work with its default settings');
    $figures[] = $baseline->defaults(500);
    $progress->say('measuring queue:work, tuned');
    $figures[] = $baseline->tuned(2000);
}
$progress->clear();
echo Figures::table($figures);
exit($storm->lost() === 0 ? 0 : 1);
