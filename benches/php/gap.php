<?php

// Jobs of 0.5 s that record, in nanoseconds, the gap from the end of one to the start of the next. Each gap is written
// while the next job runs, so that writing is not part of any gap. Argument: the file.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

$file = fopen($argv[1] ?? throw new RuntimeException('usage: gap.php FILE'), 'ab');
$end = null;

Stoker\Worker::create()
    ->onJob('bench', static function () use ($file, &$end): void {
        $start = hrtime(true);
        if ($end !== null) {
            fwrite($file, $start - $end . "\n");
        }
        usleep(500_000);
        $end = hrtime(true);
    })
    ->run();
