<?php

// Prints in the ways that need no constant STDOUT or STDERR.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

Stoker\Worker::create()
    ->onCall('t.print', static function (): string {
        echo "by echo\n";
        file_put_contents('php://stdout', "to a stream\n");
        file_put_contents('php://stderr', "to the other stream\n");
        system('echo by a program >&2');

        return 'printed';
    })
    ->run();
