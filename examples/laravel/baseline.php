<?php

// Laravel's own queue:work with the database driver on SQLite, measured with the jobs and the ledger of demo.php.
//
//     php baseline.php [jobs by default settings] [jobs by tuned ones]

require __DIR__ . '/bootstrap/autoload.php';

use Demo\{Baseline, Figures, Workspace};

$baseline = new Baseline(new Workspace());
echo Figures::table([$baseline->defaults((int) ($argv[1] ?? 500)), $baseline->tuned((int) ($argv[2] ?? 2000))]);
