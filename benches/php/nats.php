<?php
// The same calls over NATS, without a client library: php nats.php ADDRESS worker | php nats.php ADDRESS SECONDS

[, $address, $mode] = $argv;
$context = stream_context_create(['socket' => ['tcp_nodelay' => true]]);
$nats = stream_socket_client("tcp://$address", $errno, $error, 5, STREAM_CLIENT_CONNECT, $context) ?: exit("$error\n");
stream_set_timeout($nats, 60);
stream_set_chunk_size($nats, 65536);
$buffer = '';

/** Yields the subject of the answer and the payload of each message that arrives. */
$messages = static function () use ($nats, &$buffer, $mode): Generator {
    while (true) {
        $at = 0;
        while (($end = strpos($buffer, "\r\n", $at)) !== false) {
            if ($buffer[$at] === 'M') {
                $words = explode(' ', substr($buffer, $at, $end - $at));
                $length = (int) end($words);
                if (strlen($buffer) < $end + 2 + $length + 2) {
                    break;
                }
                yield [count($words) === 5 ? $words[3] : $words[1], substr($buffer, $end + 2, $length)];
                $at = $end + 2 + $length + 2;
                continue;
            }
            if (substr($buffer, $at, 4) === 'PING') {
                fwrite($nats, "PONG\r\n");
            } elseif ($mode === 'worker' && substr($buffer, $at, 4) === 'PONG') {
                echo "ready\n"; // The server has read SUB.
            }
            $at = $end + 2;
        }
        $buffer = substr($buffer, $at);
        yield null; // Everything that has arrived was processed.
        $bytes = fread($nats, 65536);
        if ($bytes === '' || $bytes === false) {
            return;
        }
        $buffer .= $bytes;
    }
};

fwrite($nats, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n");
if ($mode === 'worker') {
    fwrite($nats, "SUB bench.echo workers 1\r\nPING\r\n");
    $answers = '';
    foreach ($messages() as $message) {
        if ($message !== null) {
            $answers .= 'PUB ' . $message[0] . ' ' . strlen($message[1]) . "\r\n$message[1]\r\n";
        } elseif ($answers !== '') {
            fwrite($nats, $answers);
            $answers = '';
        }
    }
    exit;
}
$inbox = '_INBOX.' . bin2hex(random_bytes(8));
fwrite($nats, "SUB $inbox.* 1\r\n");
$body = '{"hello":"world"}';
$requests = '';
for ($i = 0; $i < 16; $i++) {
    $requests .= "PUB bench.echo $inbox.$i " . strlen($body) . "\r\n$body\r\n";
}
$end = hrtime(true) + (int) ((float) $mode * 1e9);
$stream = $messages();
for ($calls = 0; hrtime(true) < $end; $calls += 16) {
    fwrite($nats, $requests);
    for ($open = 16; $open > 0; $stream->next()) {
        $open -= $stream->current() === null ? 0 : 1;
    }
}
echo $calls, "\n";
