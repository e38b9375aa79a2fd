<?php

// Tests the addresses of servers: their form, where they come from, and lists of them.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Client;
use Stoker\ConnectionRefused;
use Stoker\Internal\Address;
use Stoker\Internal\Backoff;
use Stoker\InvalidRequest;

/** @return array{string, string, string, array<string, string>} scheme, target, host and TLS parameters */
function parsed(string $text): array
{
    [$address] = Address::list($text, 'a test');

    return [$address->scheme, $address->target, $address->isRemote() ? $address->host() : '', $address->tls];
}

/** @param array<string, string|null> $env runs code with these variables, and without those that are null */
function with(array $env, \Closure $run): mixed
{
    $before = array_map(static fn (string $name) => getenv($name), array_combine(array_keys($env), array_keys($env)));
    try {
        foreach ($env as $name => $value) {
            putenv($value === null ? $name : "$name=$value");
        }

        return $run();
    } finally {
        foreach ($before as $name => $value) {
            putenv($value === false ? $name : "$name=$value");
        }
    }
}

/** A fake server that answers every request with a word, over any number of connections, one after another. */
function saying(string $word, ?string $socket = null): Stage
{
    return new Stage(function (Stage $stage) use ($word): void {
        while (true) {
            $peer = $stage->welcome();
            while ($request = $peer->next()) {
                $peer->answer($request, 0, $word);
            }
        }
    }, $socket);
}

/** "tcp://host:port" of a port on which nothing listens. */
function closedPort(): string
{
    $server = stream_socket_server('tcp://127.0.0.1:0');

    return 'tcp://' . stream_socket_get_name($server, false);
}

test('address: every form', function (): void {
    same(['unix', '/run/stoker.sock', '', []], parsed('/run/stoker.sock'));
    same(['unix', './stoker.sock', '', []], parsed('./stoker.sock'));
    same(['unix', '/run/stoker.sock', '', []], parsed('unix:///run/stoker.sock'));
    same(['tcp', '10.0.0.5:7007', '10.0.0.5', []], parsed('tcp://10.0.0.5:7007'));
    same(['tcp', '[::1]:7007', '::1', []], parsed('tcp://[::1]:7007/'));
    same(['tls', 'stoker.internal:65535', 'stoker.internal', []], parsed('tls://stoker.internal:65535'));
    same(
        ['tls', 'h:1', 'h', ['ca' => '/a b/ca.pem', 'name' => 'x.y', 'cert' => '/c', 'key' => '/k']],
        parsed('tls://h:1?ca=/a%20b/ca.pem&name=x.y&cert=/c&key=/k'),
    );
    same(['a.sock', 'h:1', 'g:2'], array_map(fn (Address $a) => $a->target, Address::list('a.sock, tcp://h:1,tls://g:2?name=n', '')));
});

test('address: every case of sdk/conformance/addresses.json, which the command line follows, too', function (): void {
    $all = json_decode(file_get_contents(__DIR__ . '/../../conformance/addresses.json'), true, 512, JSON_THROW_ON_ERROR);
    $shown = static fn (Address $a): array => ['scheme' => $a->scheme, 'target' => $a->target] + ($a->scheme === 'tls' ? ['tls' => $a->tls] : []);
    foreach ($all['valid'] as ['text' => $text, 'addresses' => $addresses]) {
        same($addresses, array_map($shown, Address::list($text, 'a test')), $text);
    }
    foreach ($all['invalid'] as $text) {
        throws(InvalidRequest::class, static fn () => holds(Address::list($text, 'a test') === [], "\"$text\" is accepted"));
    }
});

test('address: an invalid one is rejected with what is wrong, where, and what to do', function (): void {
    $cases = [
        '' => 'invalid address "" in the parameter $socket: it is empty: expected a path, unix:///path, tcp://host:port or tls://host:port',
        'a.sock,' => 'it is empty',
        'http://h:1' => 'unknown scheme "http": expected a path, unix:///path',
        'ssl://h:1' => 'unknown scheme "ssl"',
        'unix://' => 'the path is missing',
        'unix:///a?ca=/b' => 'a unix socket has no parameters',
        'tcp://h' => 'the port is missing: expected tcp://host:port, such as tcp://h:7007',
        'tls://h:' => 'the port is missing',
        'tcp://:1' => 'invalid host',
        'tcp://::1:7' => 'invalid host: expected tcp://host:port, with an IPv6 address in brackets, such as tcp://[::1]:7007',
        'tcp://h:0' => 'invalid port "0": expected 1 to 65535',
        'tcp://h:65536' => 'invalid port "65536"',
        'tcp://h:7x' => 'invalid port "7x"',
        'tcp://h:1/path' => 'invalid port "1/path"',
        'tls://me:secret@h:1' => 'pass the token with STOKER_TOKEN',
        'tcp://h:1?ca=/a' => 'the parameter "ca" is only for TLS: use tls:// instead of tcp://, or remove it',
        'tls://h:1?verify=0' => 'unknown parameter "verify": expected any of ca, name, cert, key',
        'tls://h:1?ca' => 'the parameter "ca" has no value',
        'tls://h:1?ca=/a&ca=/b' => 'the parameter "ca" is given twice',
        'tls://h:1?key=/k' => 'the parameter "cert" is missing',
    ];
    foreach ($cases as $text => $message) {
        $e = throws(InvalidRequest::class, fn () => Client::connect($text));
        holds(str_contains($e->getMessage(), $message), "\"$text\": {$e->getMessage()}");
    }
    with(['STOKER_URL' => 'tcp://h'], function (): void {
        holds(str_contains(throws(InvalidRequest::class, fn () => Client::connect())->getMessage(), 'invalid address "tcp://h" in STOKER_URL'), 'the variable');
    });
});

test('address: an argument comes before STOKER_URL, and that before STOKER_SOCKET except in a worker of Stoker', function (): void {
    [$tcp, $unix, $other] = [saying('url', 'tcp'), saying('socket'), saying('argument')];
    $env = ['STOKER_URL' => $tcp->socket, 'STOKER_SOCKET' => $unix->socket, 'STOKER_WORKER' => null];
    $ask = static fn (?string $socket = null) => Client::connect($socket)->call('a.b');
    same('argument', with($env, fn () => $ask($other->socket)));
    same('url', with($env, $ask));
    same('socket', with(['STOKER_URL' => null] + $env, $ask));
    same('socket', with(['STOKER_URL' => ''] + $env, $ask));
    same('socket', with(['STOKER_WORKER' => 'app-1'] + $env, $ask));
    same('url', with(['STOKER_WORKER' => 'app-1', 'STOKER_SOCKET' => null] + $env, $ask));
});

test('address: of several servers the next one is used if one is away', function (): void {
    $up = saying('up', 'tcp');
    same('up', Client::connect(closedPort() . ',/nonexistent/s.sock,' . $up->socket)->call('a.b'));
    [$one, $two] = [closedPort(), closedPort()];
    $e = throws(ConnectionRefused::class, fn () => Client::connect("$one,$two"));
    holds(str_contains($e->getMessage(), "$one (Connection refused)") && str_contains($e->getMessage(), "$two (Connection refused)"), $e->getMessage());
});

test('address: a client starts with the server that worked last in this process', function (): void {
    [$one, $two] = [saying('one', 'tcp'), saying('two', 'tcp')];
    $list = "{$one->socket},{$two->socket}";
    $client = Client::connect($list);
    same('one', $client->call('a.b'));
    Processes::end($one->pid);
    same('two', $client->call('a.b', idempotent: true));
    $client->close(); // This server serves one connection at a time.
    $again = saying('one again', $one->hostAndPort());
    same('two', Client::connect($list)->call('a.b'), 'although the first is up again');
    same('one again', Client::connect("{$one->socket},tcp://127.0.0.1:1")->call('a.b'), 'another list');
});

test('address: an attempt ends after connectTimeout, and all attempts at the deadline of the request', function (): void {
    // The backlog of this listener is full, so that further connections are not accepted.
    $full = stream_socket_server('tcp://127.0.0.1:0', $errno, $why, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, stream_context_create(['socket' => ['backlog' => 0]]));
    $silent = 'tcp://' . stream_socket_get_name($full, false);
    for ($all = []; count($all) < 8 && ($one = @stream_socket_client($silent, timeout: 0.1)) !== false; $all[] = $one);
    $seconds = static function (\Closure $run): float {
        $start = hrtime(true);
        throws(ConnectionRefused::class, $run);

        return (hrtime(true) - $start) / 1e9;
    };
    $took = $seconds(fn () => Client::connect("$silent,$silent", connectTimeout: 0.2));
    holds($took >= 0.35 && $took < 2, "two attempts took $took");
    $took = $seconds(fn () => Client::connect("$silent,$silent", connectTimeout: 20, reconnectFor: 20, timeout: 0.2));
    holds($took >= 0.15 && $took < 2, "with a deadline it took $took");
});

test('address: a TCP connection sends small frames at once', function (): void {
    if (!function_exists('socket_import_stream')) {
        return;
    }
    $stage = saying('x', 'tcp');
    $stream = \Stoker\Internal\Socket::dial(Address::list($stage->socket, '')[0], 1.0);
    holds(socket_get_option(socket_import_stream($stream), SOL_TCP, TCP_NODELAY) !== 0, 'TCP_NODELAY');
});

test('backoff: pauses are random from 0 to a limit that grows from 0.1 to 5 seconds', function (): void {
    foreach ([1 => 0.1, 2 => 0.2, 3 => 0.4, 7 => 5.0, 1000 => 5.0] as $failures => $limit) {
        $pauses = array_map(fn () => Backoff::seconds($failures), range(1, 500));
        holds(min($pauses) >= 0 && min($pauses) < $limit / 10 && max($pauses) <= $limit && max($pauses) > $limit * 0.9, "after $failures: " . min($pauses) . ' to ' . max($pauses));
    }
});
