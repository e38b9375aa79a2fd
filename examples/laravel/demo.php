<?php

// Thousands of Laravel jobs and calls through Stoker while its workers are being killed, then the same hello jobs
// through Laravel's own queue:work. Exits with 1 when anything was lost.
//
//     php demo.php path/to/stoker [--skip-baseline]

require __DIR__ . '/bootstrap/autoload.php';

use Demo\{Demo, Process, Progress, Workspace};

$binary = realpath($argv[1] ?? '');
if ($binary === false) {
    fwrite(STDERR, "usage: php demo.php path/to/stoker [--skip-baseline]\n");
    exit(2);
}

$progress = new Progress();
$workspace = new Workspace();
// Whatever happens, nothing stays behind: exit() runs this too.
register_shutdown_function(static function () use ($workspace, $progress) {
    $progress->clear();
    Process::stopAll();
    $workspace->remove();
});
pcntl_async_signals(true);
foreach ([SIGINT, SIGTERM, SIGHUP] as $signal) {
    pcntl_signal($signal, static fn () => exit(128 + $signal));
}

$demo = new Demo($binary, $workspace, $progress);
$lost = $demo->run(baseline: ! in_array('--skip-baseline', $argv, true));
exit($lost === 0 ? 0 : 1);
