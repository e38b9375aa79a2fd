<?php

namespace Demo;

use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application;

/**
 * A temporary directory for everything that a run writes, and the application, booted with this directory as its
 * storage. When this process ends, also by a signal, the processes that it started are stopped and the directory is
 * removed.
 */
final class Workspace
{
    private const SIGNALS = [SIGINT, SIGTERM, SIGHUP];

    public readonly string $path;
    public readonly Application $app;

    public function __construct()
    {
        $this->path = sys_get_temp_dir() . '/stoker-demo-' . getmypid();
        // Block signals while the application boots: their handler could not load the classes that it needs.
        pcntl_sigprocmask(SIG_BLOCK, self::SIGNALS);
        pcntl_async_signals(true);
        foreach (self::SIGNALS as $signal) {
            // exit() runs shutdown functions; death by the signal would not.
            pcntl_signal($signal, static fn () => exit(128 + $signal));
        }
        register_shutdown_function(function (): void {
            Process::stopAll();
            $this->remove();
        });

        mkdir($this->path, 0700);
        touch("$this->path/database.sqlite");
        // Set in the environment, so that all processes started from here inherit it.
        putenv("APP_STORAGE=$this->path");
        $this->app = require dirname(__DIR__) . '/bootstrap/app.php';
        $kernel = $this->app->make(Kernel::class);
        $kernel->bootstrap();
        $kernel->call('migrate', ['--force' => true]);
        pcntl_sigprocmask(SIG_UNBLOCK, self::SIGNALS);
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
