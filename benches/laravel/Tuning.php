<?php

namespace Bench;

use Illuminate\Support\ServiceProvider;

/** Makes the database driver faster by settings alone, for runs that need not be durable. */
final class Tuning extends ServiceProvider
{
    public function boot(): void
    {
        if (getenv('BENCH_SYNC') === '1') {
            return;
        }
        // Commits do not wait for the disk: a power loss may take the last jobs with it.
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
