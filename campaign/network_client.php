<?php
// A client on another host, for campaign/network.py: php network_client.php NUMBER FILE STOP TOKEN. Pushes and calls until the
// file STOP exists, and appends a line to FILE for everything that it learns. The file TOKEN has the current token.

require __DIR__ . '/../sdk/php/src/autoload.php';

[, $number, $file, $stop, $token] = $argv;
$log = fopen($file, 'a');
$note = static fn (string $line) => fwrite($log, "$line\n");
$client = null;
for ($n = $number * 1_000_000; !file_exists($stop); $n++) {
    $body = ['n' => $n, 'us' => random_int(300, 20_000)];
    $push = random_int(0, 2) > 0;
    while (!file_exists($stop)) {
        try {
            $client ??= Stoker\Client::connect(token: file_get_contents($token), timeout: 3.0, connectTimeout: 1.0, keepalive: 1.0);
            if ($push) {
                // Repeated until it is accepted: the key makes it one job.
                $note("accepted $n " . $client->push('net', $body, timeout: 10.0, idempotencyKey: "k$n"));
                break;
            }
            $method = random_int(0, 1) ? 'net.echo' : 'net.once';
            $answer = $client->call($method, $body, timeout: 3.0, idempotent: $method === 'net.echo');
            $note((json_decode($answer, true) === $body ? 'answered' : 'foreign') . " $n $method");
            break;
        } catch (Stoker\StokerException $e) {
            $note("failed $n " . (new ReflectionClass($e))->getShortName());
            if (preg_match('/token|failed attempts/', $e->getMessage())) {
                $client = null; // The token was rotated or revoked: the next client reads it again.
            }
            if (!$push) {
                break; // A call is not repeated by this program, only by the SDK.
            }
            usleep(20_000);
        }
    }
}
