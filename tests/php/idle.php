<?php

// Is idle for longer than PHP's own socket timeout.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

ini_set('default_socket_timeout', '1');

Worker::create()
    ->onCall('t.run', fn (Task $task) => getmypid())
    ->run();
