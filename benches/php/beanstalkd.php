<?php

// The minimal beanstalkd worker: it deletes a job and reserves the next in one write. Argument: the socket.

declare(strict_types=1);

$broker = stream_socket_client('unix://' . ($argv[1] ?? throw new RuntimeException('usage: beanstalkd.php SOCKET')));
stream_set_timeout($broker, -1);

for (fwrite($broker, "reserve\r\n"); ($line = fgets($broker)) !== false;) {
    if ($line === "DELETED\r\n") {
        continue;
    }
    if (!str_starts_with($line, 'RESERVED ')) {
        fwrite(STDERR, "beanstalkd: $line");
        exit(1);
    }
    [, $id, $length] = explode(' ', $line);
    $body = stream_get_contents($broker, (int) $length + 2);
    fwrite($broker, "delete $id\r\nreserve\r\n");
}
