<?php

// The minimal PHP worker without the SDK. The difference to hello.php is the cost of the SDK.
//
// It answers jobs with an empty OK and calls with their own body, one write each. It has no deadlines, errors, log
// lines or limits. Env: STOKER_FD.

declare(strict_types=1);

const REQ = 1;
const RES = 2;
const HELLO = 4;
const PING = 7;
const PONG = 8;
const GOAWAY = 9;
const HEADER = 20;
const JOB_ID = "\x10\x10"; // metadata key 16, 16 bytes; the server puts it first, and this benchmark relies on that

$fd = getenv('STOKER_FD');
$broker = $fd === false ? false : fopen("php://fd/$fd", 'r+b');
if ($broker === false) {
    fwrite(STDERR, "raw.php: STOKER_FD names no descriptor\n");
    exit(1);
}
stream_set_timeout($broker, -1);       // otherwise an idle read ends after 60 s
stream_set_read_buffer($broker, 0); // otherwise every read is cut at 8 KiB

$send = static function (int $type, int $prio, int $id, int $ttl, string $body) use ($broker): void {
    $frame = pack('NCCCCNNnCC', 16 + strlen($body), $type, 0, 0, $prio, $id, $ttl, 0, 0, 0) . $body;
    if (fwrite($broker, $frame) !== strlen($frame)) {
        exit(0); // the server has gone
    }
};

$send(HELLO, 0, 0, 0, json_encode([
    'v' => [1], 'role' => 'worker', 'name' => 'bench raw.php', 'pid' => getmypid(), 'slots' => 1,
    'calls' => ['bench.echo'], 'idempotent' => ['bench.echo'], 'jobs' => ['bench'],
], JSON_THROW_ON_ERROR));

for ($buffer = '', $leaving = false; !$leaving;) {
    $chunk = fread($broker, 65536);
    if ($chunk === '' || $chunk === false) {
        break;
    }
    $buffer .= $chunk;
    $have = strlen($buffer);
    $at = 0;
    while ($have - $at >= HEADER) {
        $f = unpack('Nlen/Ctype/Cflags/Ccode/Cprio/Nid/Nttl/nmeta/Cname/Cattempt', $buffer, $at);
        if ($have - $at < 4 + $f['len']) {
            break;
        }
        $extra = $f['name'] + $f['meta'];
        if ($f['type'] === REQ) {
            $job = $f['meta'] > 0 && substr_compare($buffer, JOB_ID, $at + HEADER + $f['name'], 2) === 0;
            $body = $job ? '' : substr($buffer, $at + HEADER + $extra, $f['len'] - 16 - $extra);
            $send(RES, $f['code'], $f['id'], 1, $body);
        } elseif ($f['type'] === PING) {
            $send(PONG, 0, $f['id'], 0, '');
        } elseif ($f['type'] === GOAWAY) {
            $leaving = true;
        }
        $at += 4 + $f['len'];
    }
    $buffer = substr($buffer, $at);
}
