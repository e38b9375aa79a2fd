<?php

// Runs thousands of Laravel jobs, calls and HTTP requests through Stoker while processes are killed, and then compares
// Stoker with Laravel's own queue:work. Exits with code 1 if a job, call or request was lost.
//
//     php demo.php path/to/stoker [--skip-baseline]

require __DIR__ . '/bootstrap/autoload.php';

use Demo\{Baseline, Broker, Contender, Figures, Progress, Site, Storm, Workspace};

$binary = $argv[1] ?? '';
if (! is_file($binary)) {
    fwrite(STDERR, "usage: php demo.php path/to/stoker [--skip-baseline]\n");
    exit(2);
}

$progress = new Progress();
$workspace = new Workspace();
try {
    $progress->say('starting Stoker and its workers');
    $broker = new Broker(realpath($binary), $workspace->path);
    $broker->awaitReady(20);

    $storm = new Storm($broker, $workspace->ledger(), $workspace->path, $progress);
    $storm->run(40);
    $progress->clear();
    echo $storm->report(), "\n";

    $progress->say('requesting pages');
    $site = new Site($broker, $progress);
    $site->run();
    $progress->clear();
    echo $site->report(), "\n";

    $progress->say('measuring hello jobs alone');
    $figures = [(new Contender($broker, $workspace))->measure(10_000)];
    $broker->stop();

    if (! in_array('--skip-baseline', $argv, true)) {
        $baseline = new Baseline($workspace);
        $progress->say('measuring queue:work with its default settings');
        $figures[] = $baseline->defaults(500);
        $progress->say('measuring queue:work, tuned');
        $figures[] = $baseline->tuned(2000);
    }
    $progress->clear();
    echo Figures::table($figures);
} catch (Throwable $e) {
    // Laravel's exception handler would print the exception, but exit with code 0.
    $progress->clear();
    fwrite(STDERR, "The demo failed: {$e->getMessage()}\n");
    exit(1);
}

if ($storm->lost() + $site->lost() > 0) {
    fwrite(STDERR, "{$storm->lost()} jobs or calls were lost; {$site->lost()} requests failed or connections were refused\n");
    exit(1);
}
