<?php

namespace Demo;

use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application;

/**
 * A directory of its own for everything that a run writes, and the application booted on it. When this process ends,
 * however it does, the directory goes, and with it every process that was started from here.
 */
final class Workspace
{
    private const SIGNALS = [SIGINT, SIGTERM, SIGHUP];

    public readonly string $path;
    public readonly Application $app;

    public function __construct()
    {
        $this->path = sys_get_temp_dir() . '/stoker-demo-' . getmypid();
        // Not in the middle of booting, where no class can be loaded for what has to be done then.
        pcntl_sigprocmask(SIG_BLOCK, self::SIGNALS);
        pcntl_async_signals(true);
        foreach (self::SIGNALS as $signal) {
            // exit() runs shutdown functions; dying of the signal would not.
            pcntl_signal($signal, static fn () => exit(128 + $signal));
        }
        register_shutdown_function(function (): void {
            Process::stopAll();
            $this->remove();
        });

        mkdir($this->path, 0700);
        touch("$this->path/database.sqlite");
        // Set in this process, so that every process started from here inherits it.
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
