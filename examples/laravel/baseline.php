<?php

// Laravel's own `queue:work` with the database driver on SQLite, measured by the same jobs and the same ledger
// as Stoker in demo.php. Alone: php baseline.php [--tuned] [--jobs=N] [--workers=N] [--json]

require __DIR__ . '/bootstrap/autoload.php';

use Demo\{Baseline, Process, Stats, Workspace};

$options = getopt('', ['tuned', 'jobs:', 'workers:', 'json']);
$tuned = isset($options['tuned']);
$workspace = new Workspace();
register_shutdown_function(static function () use ($workspace) {
    Process::stopAll();
    $workspace->remove();
});
pcntl_async_signals(true);
foreach ([SIGINT, SIGTERM] as $signal) {
    pcntl_signal($signal, static fn () => exit(130));
}

$result = (new Baseline($workspace, $tuned))->measure((int) ($options['jobs'] ?? ($tuned ? 2000 : 500)), (int) ($options['workers'] ?? ($tuned ? 2 : 1)));
if (isset($options['json'])) {
    echo json_encode($result), "\n";
} else {
    foreach ($result as $name => $value) {
        printf("%-22s %s\n", $name, is_float($value) ? Stats::number($value) : $value);
    }
}
