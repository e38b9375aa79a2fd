<?php

// A zygote that breaks its protocol in the way that its argument names.

declare(strict_types=1);

$socket = socket_create(AF_UNIX, SOCK_SEQPACKET, 0);
socket_connect($socket, "\0" . getenv('STOKER_ZYGOTE')) or exit(1);
$send = static fn (string $record) => socket_send($socket, $record, strlen($record), 0);
if ($argv[1] === 'version') {
    $send("\1\2\0");
    sleep(1000);
}
$send("\1\1\0");
while (socket_recv($socket, $record, 4096, 0)) {
    $key = substr($record, 1, 8);
    match ($argv[1]) {
        // The parent of this process, which may have more privileges.
        'foreign' => $send("\2" . $key . pack('V', posix_getppid())),
        'init' => $send("\2" . $key . pack('V', 1)),
        'itself' => $send("\2" . $key . pack('V', getmypid())),
        'twice' => $send("\1\1\0"),
        'garbage' => $send('garbage'),
        'silent' => null,
        'refuses' => $send("\4" . $key . 'there is no room'),
    };
}
