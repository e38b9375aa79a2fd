<?php

// php sdk/php/tests/run.php [part of a name]: runs the tests whose names contain the part, and prints each failure.

declare(strict_types=1);

namespace Stoker\Tests;

require __DIR__ . '/../src/autoload.php';
require __DIR__ . '/support/check.php';
require __DIR__ . '/support/Processes.php';
require __DIR__ . '/support/Probe.php';
require __DIR__ . '/support/Peer.php';
require __DIR__ . '/support/Certificates.php';
require __DIR__ . '/support/Stage.php';
require __DIR__ . '/support/Server.php';
require __DIR__ . '/support/Site.php';
require __DIR__ . '/support/Table.php';
require __DIR__ . '/support/Model.php';
require __DIR__ . '/support/Puppet.php';
require __DIR__ . '/support/Walk.php';

error_reporting(E_ALL);
ini_set('display_errors', 'stderr');
// A warning in the SDK is a bug, so it fails the test.
set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    if (error_reporting() & $level) {
        throw new \ErrorException($message, 0, $level, $file, $line);
    }

    return true;
});

foreach (glob(__DIR__ . '/*_test.php') as $file) {
    require $file;
}
[$passed, $failed] = [0, 0];
foreach (tests() as $name => $run) {
    if (!str_contains($name, $argv[1] ?? '')) {
        continue;
    }
    try {
        $run();
        $passed++;
    } catch (\Throwable $e) {
        $failed++;
        printf("FAILED %s\n  %s: %s\n  %s:%d\n", $name, $e::class, $e->getMessage(), $e->getFile(), $e->getLine());
        if (!$e instanceof Failure) {
            echo preg_replace('/^/m', '    ', $e->getTraceAsString()), "\n";
        }
    } finally {
        Processes::endAll();
    }
}
echo "$passed passed, $failed failed\n";
exit($failed > 0 ? 1 : 0);
