<?php

// Measures Laravel's own queue:work with the database driver on SQLite, with the jobs and the ledger of demo.php.
//
//     php baseline.php [jobs with default settings] [jobs with tuned settings]

require __DIR__ . '/bootstrap/autoload.php';

use Demo\{Baseline, Figures, Workspace};

$baseline = new Baseline(new Workspace());
echo Figures::table([$baseline->defaults((int) ($argv[1] ?? 500)), $baseline->tuned((int) ($argv[2] ?? 2000))]);
