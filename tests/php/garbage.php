<?php

// Writes into its own connection to Stoker, which it finds among its descriptors.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

Worker::create()
    ->onCall('t.run', function (Task $task): string {
        foreach (scandir('/proc/self/fd') as $fd) {
            if (str_starts_with((string) @readlink("/proc/self/fd/$fd"), 'socket:')) {
                fwrite(fopen("php://fd/$fd", 'w'), "PHP Warning: this is no frame\n");
            }
        }
        sleep(10);

        return 'never';
    })
    ->run();
