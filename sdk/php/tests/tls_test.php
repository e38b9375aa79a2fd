<?php

// Tests connections over TLS, and what the errors say.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Client;
use Stoker\ConnectionLost;
use Stoker\ConnectionRefused;
use Stoker\Wire\Frame;
use Stoker\Wire\Type;

/** A fake server over TLS that answers every request with its body. */
function encrypted(?string $certificate = null): Stage
{
    return new Stage(function (Stage $stage): void {
        while (true) {
            $peer = $stage->accept();
            // A client that does not trust the certificate sends no HELLO.
            $peer->next() === null || $peer->send(Frame::of(Type::WELCOME, body: '{"v":1,"max_frame":16777215,"max_inflight":1024}'));
            while ($request = $peer->next()) {
                $peer->answer($request, 0, $request->body);
            }
        }
    }, 'tls', $certificate);
}

/** The message of the error when connecting to an address. */
function refusal(string $address, float $connectTimeout = 10.0): string
{
    // With reconnectFor, because an error of the configuration must be reported at once.
    return throws(ConnectionRefused::class, fn () => Client::connect($address, connectTimeout: $connectTimeout, reconnectFor: 60)->call('a.b'))->getMessage();
}

function includes(string $part, string $text): void
{
    holds(str_contains($text, $part), "\"$part\" is not part of: $text");
}

/** "host:port" of `openssl s_server` with more options. */
function opensslServer(string ...$options): string
{
    static $open = []; // It ends when its stdin does.
    $process = proc_open(
        ['openssl', 's_server', '-accept', '127.0.0.1:0', '-cert', Certificates::server(), ...$options],
        [['pipe', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']],
        $pipes,
    );
    $open[] = $pipes;
    Processes::add($process);
    while (($line = fgets($pipes[1])) !== false) {
        if (preg_match('/^ACCEPT \S+:(\d+)/', $line, $port)) {
            return "127.0.0.1:$port[1]";
        }
    }
    throw new Failure('openssl s_server does not start');
}

test('tls: calls with small and large bodies', function (): void {
    $client = Client::connect(encrypted()->socket, connectTimeout: 10);
    foreach ([0, 1, 16384, 70_000, 5_000_000] as $size) {
        $body = substr(str_repeat('0123456789abcdef', intdiv($size, 16) + 1), 0, $size);
        holds($client->call('a.b', $body) === $body, "$size bytes");
    }
    same(array_fill(0, 500, str_repeat('x', 5000)), $client->callAll(array_fill(0, 500, ['a.b', str_repeat('x', 5000)])));
});

test('tls: the server\'s name is the host or the parameter name', function (): void {
    $stage = encrypted(Certificates::server('DNS:stoker.internal'));
    same('x', Client::connect("{$stage->socket}&name=stoker.internal", connectTimeout: 10)->call('a.b', 'x'));
    $port = explode(':', $stage->hostAndPort())[1];
    same('x', Client::connect("tls://localhost:$port?name=stoker.internal&ca=" . Certificates::ca(), connectTimeout: 10)->call('a.b', 'x'));
    includes('the server\'s certificate is not for "127.0.0.1" but for DNS:stoker.internal: use a host name that the certificate contains, or add ?name=NAME', refusal($stage->socket));
});

test('tls: an IPv6 address', function (): void {
    if (@stream_socket_server('tcp://[::1]:0') === false) {
        return; // This machine has no IPv6.
    }
    $echo = static fn (Stage $stage) => ($peer = $stage->welcome())->answer($peer->next(), 0, 'v6');
    same('v6', Client::connect((new Stage($echo, '[::1]:0'))->socket)->call('a.b'));
    same('v6', Client::connect((new Stage($echo, '[::1]:0', Certificates::server()))->socket, connectTimeout: 10)->call('a.b'));
});

test('tls: an expired certificate, with the time of this machine', function (): void {
    $message = refusal(encrypted(Certificates::expired())->socket);
    includes('the certificate "server" expired at ' . gmdate('Y-m-d'), $message);
    includes('the clock of this machine is at ' . gmdate('Y-m-d H:'), $message);
    includes('renew the certificate, or correct the clock', $message);
});

test('tls: an unknown CA', function (): void {
    $stage = encrypted();
    includes('add ?ca=FILE with the certificate of its CA', refusal("tls://{$stage->hostAndPort()}"));
    $unknown = encrypted(Certificates::unknown());
    includes('not signed by a CA in "' . Certificates::ca() . '"', refusal($unknown->socket));
    includes('cannot read the file "/nonexistent.pem": correct the parameter "ca"', refusal('tls://127.0.0.1:1?ca=/nonexistent.pem'));
});

test('tls: a server without TLS, and one that is silent', function (): void {
    $plain = new Stage(function (Stage $stage): void {
        while ($peer = $stage->accept()) {
            fread($peer->socket, 1000);
            $peer->send(Frame::of(Type::RES, code: 9, body: 'this port serves frames without TLS'));
            $peer->close();
        }
    }, 'tcp');
    includes('the server does not use TLS on this port: use tcp://', refusal("tls://{$plain->hostAndPort()}"));
    $silent = stream_socket_server('tcp://127.0.0.1:0');
    $start = hrtime(true);
    $message = throws(ConnectionRefused::class, fn () => Client::connect('tls://' . stream_socket_get_name($silent, false), connectTimeout: 0.2))->getMessage();
    includes('the TLS handshake took too long: if this is not a TLS port', $message);
    $took = (hrtime(true) - $start) / 1e9;
    holds($took >= 0.19 && $took < 1, "the limit includes the handshake: $took");
});

test('tls: a server with TLS to which the client speaks without it', function (): void {
    $stage = new Stage(function (Stage $stage): void {
        $peer = $stage->accept();
        fread($peer->socket, 1000);
        fwrite($peer->socket, "\x15\x03\x03\x00\x02\x02\x46"); // The alert protocol_version.
        $peer->close();
    }, 'tcp');
    $message = throws(ConnectionLost::class, fn () => Client::connect($stage->socket)->call('a.b'))->getMessage();
    includes('the server expects TLS at this port: use tls:// instead of tcp://', $message);
});

test('tls: a server that requires a client certificate', function (): void {
    foreach (['-tls1_2', '-tls1_3'] as $version) {
        $address = 'tls://' . opensslServer('-Verify', '1', '-CAfile', Certificates::ca(), '-verify_return_error', $version) . '?ca=' . Certificates::ca();
        includes('the server requires a client certificate: add ?cert=FILE&key=FILE', refusal($address));
        includes('the server rejected the client certificate', refusal("$address&cert=" . Certificates::unknown()));
        // It accepts the certificate, but it is not a Stoker server, so the call gets no answer.
        $client = Client::connect("$address&cert=" . Certificates::server() . '&key=' . Certificates::server(), connectTimeout: 10);
        throws(\Stoker\DeadlineExceeded::class, fn () => $client->call('a.b', timeout: 0.05));
    }
});

test('tls: TLS 1.1 is not used', function (): void {
    $address = 'tls://' . opensslServer('-tls1_1', '-cipher', 'DEFAULT:@SECLEVEL=0') . '?ca=' . Certificates::ca();
    includes('the server supports neither TLS 1.2 nor TLS 1.3', refusal($address));
});

test('tls: a certificate that is not trusted keeps the client from a server only while another can be used', function (): void {
    $bad = encrypted(Certificates::expired());
    same('x', Client::connect("{$bad->socket},{$bad->socket}," . encrypted()->socket, connectTimeout: 10)->call('a.b', 'x'));
});
