<?php

declare(strict_types=1);

// php sdk/php/laravel/tests/run.php [part of a name]: tests the integration with a real Laravel. The end-to-end tests
// need ext-curl and the stoker binary, which was built or is named by STOKER_BIN; without the binary they are skipped
// with a message.

namespace Stoker\Laravel\Tests;

use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Schema;
use Stoker\Laravel\ResidentWorker;
use Stoker\Laravel\Upkeep;
use Stoker\Tests\Processes;

use function Stoker\Tests\tests;

error_reporting(E_ALL & ~E_DEPRECATED); // For Debian's Laravel 8 with PHP 8.2, until Laravel sets its own level.
$composer = getenv('LARAVEL_AUTOLOAD');
require $composer !== false ? $composer : 'Illuminate/autoload.php';
require __DIR__ . '/../autoload.php';
require __DIR__ . '/../../tests/support/check.php';
require __DIR__ . '/../../tests/support/Processes.php';
require __DIR__ . '/../../tests/support/Server.php';
spl_autoload_register(static function (string $class): void {
    is_file($file = __DIR__ . '/support/' . substr($class, strlen(__NAMESPACE__) + 1) . '.php') && require $file;
});

// queue:restart and maintenance mode in the tests of real workers must not affect the worker in this process.
Upkeep::$every = PHP_INT_MAX;
$app = require __DIR__ . '/support/application.php';
$harness = new Harness($app, new ResidentWorker($app));
Schema::create('failed_jobs', static function (Blueprint $table): void {
    $table->id();
    foreach (['uuid', 'connection', 'queue', 'payload', 'exception'] as $column) {
        $table->text($column);
    }
    $table->timestamp('failed_at')->useCurrent();
});

Schema::create('jobs', static function (Blueprint $table): void {
    $table->id();
    $table->text('queue');
    $table->text('payload');
    foreach (['attempts', 'reserved_at', 'available_at', 'created_at'] as $column) {
        $table->integer($column)->nullable();
    }
});
Schema::create('job_batches', static function (Blueprint $table): void {
    $table->string('id')->primary();
    $table->text('name');
    foreach (['total_jobs', 'pending_jobs', 'failed_jobs', 'cancelled_at', 'created_at', 'finished_at'] as $column) {
        $table->integer($column)->nullable();
    }
    $table->text('failed_job_ids');
    $table->text('options')->nullable();
});

foreach (glob(__DIR__ . '/*_test.php') as $file) {
    require $file;
}
[$passed, $failed] = [0, 0];
foreach (tests() as $name => $run) {
    if (! str_contains($name, $argv[1] ?? '')) {
        continue;
    }
    try {
        Act::reset();
        $harness->failedJobs();
        $run();
        $passed++;
    } catch (\Throwable $e) {
        $failed++;
        printf("FAILED %s\n  %s: %s\n  %s:%d\n", $name, $e::class, $e->getMessage(), $e->getFile(), $e->getLine());
        if (! $e instanceof \Stoker\Tests\Failure) {
            echo preg_replace('/^/m', '    ', $e->getTraceAsString()), "\n";
        }
    }
}
Processes::endAll();
echo "$passed passed, $failed failed\n";
exit($failed > 0 ? 1 : 0);
