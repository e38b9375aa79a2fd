<?php

// Creates the tables that the connection needs and fills its queue: `php push.php JOBS [SINGLE]`. Prints, as JSON, the
// jobs pushed per second: in bulks of 100 and, for SINGLE more jobs, one at a time.

use Bench\Hello;
use Illuminate\Database\Schema\Blueprint;

$app = require __DIR__ . '/bootstrap.php';
$app->make(Illuminate\Contracts\Console\Kernel::class)->bootstrap();

if (getenv('QUEUE_CONNECTION') === 'database') {
    if (getenv('BENCH_TUNED') === '1' && getenv('DB_CONNECTION') === 'sqlite') {
        $app['db']->statement('PRAGMA journal_mode = WAL');
    }
    // The same table as in Laravel's own migration.
    $app['db']->connection()->getSchemaBuilder()->create('jobs', static function (Blueprint $table): void {
        $table->bigIncrements('id');
        $table->string('queue');
        $table->longText('payload');
        $table->unsignedTinyInteger('attempts');
        $table->unsignedInteger('reserved_at')->nullable();
        $table->unsignedInteger('available_at');
        $table->unsignedInteger('created_at');
        $table->index('queue');
    });
}

$queue = $app['queue']->connection();
[$jobs, $single] = [(int) $argv[1], (int) ($argv[2] ?? 0)];
$start = hrtime(true);
for ($number = 0; $number < $jobs; $number += 100) {
    $bulk = min(100, $jobs - $number);
    $queue->bulk(array_map(static fn (int $at) => new Hello($number + $at), range(0, $bulk - 1)));
}
$middle = hrtime(true);
for ($number = $jobs; $number < $jobs + $single; $number++) {
    $queue->push(new Hello($number));
}
$end = hrtime(true);
echo json_encode(['bulk' => $jobs / (($middle - $start) / 1e9), 'single' => $single / (($end - $middle + 1) / 1e9)]), "\n";
