<?php

// Opens at boot what forked processes must not share.

declare(strict_types=1);

require __DIR__ . '/../../sdk/php/src/autoload.php';

$database = new PDO('sqlite:shared.db');
$database->exec('CREATE TABLE IF NOT EXISTS notes (text TEXT)');
$lock = fopen('boot.lock', 'c');
flock($lock, LOCK_EX);
$server = stream_socket_server('tcp://127.0.0.1:0');
$connection = stream_socket_client('tcp://' . stream_socket_get_name($server, false));
echo "booted\n";

Stoker\Worker::create()->onCall('t.run', static fn (): string => 'answer')->run();
