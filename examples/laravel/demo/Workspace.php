<?php

namespace Demo;

use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application;

/** A directory of its own for everything that a run writes, and the application booted on it. */
final class Workspace
{
    public readonly string $path;
    public readonly Application $app;

    /** One that goes when this process ends, however it does, with every process started from here. */
    public static function forThisRun(): self
    {
        $workspace = new self();
        register_shutdown_function(static function () use ($workspace): void {
            Process::stopAll();
            $workspace->remove();
        });
        pcntl_async_signals(true);
        foreach ([SIGINT, SIGTERM, SIGHUP] as $signal) {
            pcntl_signal($signal, static fn () => exit(128 + $signal));
        }

        return $workspace;
    }

    private function __construct()
    {
        $this->path = sys_get_temp_dir() . '/stoker-demo-' . getmypid();
        mkdir($this->path, 0700);
        touch("$this->path/database.sqlite");

        // Set in this process, so that every process started from here inherits it.
        putenv("APP_STORAGE=$this->path");
        $this->app = require dirname(__DIR__) . '/bootstrap/app.php';
        $kernel = $this->app->make(Kernel::class);
        $kernel->bootstrap();
        $kernel->call('migrate', ['--force' => true]);
    }

    public function ledger(): Ledger
    {
        return new Ledger("$this->path/ledger.tsv");
    }

    private function remove(): void
    {
        $files = new \RecursiveIteratorIterator(
            new \RecursiveDirectoryIterator($this->path, \FilesystemIterator::SKIP_DOTS),
            \RecursiveIteratorIterator::CHILD_FIRST,
        );
        foreach ($files as $file) {
            $file->isDir() ? rmdir($file) : unlink($file);
        }
        rmdir($this->path);
    }
}
