<?php

namespace Bench;

use Illuminate\Support\ServiceProvider;

/** What can be had from the database driver by settings alone, once it need not be durable. */
final class Tuning extends ServiceProvider
{
    public function boot(): void
    {
        if (getenv('BENCH_SYNC') === '1') {
            return;
        }
        // No waiting for the disk at each commit: a power loss may take the last jobs with it.
        $statement = match (getenv('DB_CONNECTION')) {
            'sqlite' => 'PRAGMA synchronous = NORMAL',
            'pgsql' => 'SET synchronous_commit = off',
            default => null,
        };
        if ($statement !== null) {
            $this->app['db']->statement($statement);
        }
    }
}
