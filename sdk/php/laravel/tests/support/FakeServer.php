<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Stoker\Tests\Processes;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/**
 * A fake server in a separate process. It records pushes, and answers requests for queues with fixed data. It has its
 * own implementation of the wire protocol, so that it does not depend on the internals of the SDK.
 */
final class FakeServer
{
    private string $book;

    public function __construct(string $socket)
    {
        $this->book = "$socket.pushes";
        touch($this->book);
        $listener = stream_socket_server("unix://$socket");
        Processes::fork(function () use ($listener): void {
            while ($connection = @stream_socket_accept($listener, 600)) {
                stream_set_chunk_size($connection, 65536);
                stream_set_timeout($connection, 600); // Many tests run between two that use it.
                $this->serve($connection);
            }
        });
    }

    /** @return list<array<string, mixed>> the pushes since the last call */
    public function pushes(): array
    {
        $pushes = array_map('unserialize', array_map('base64_decode', file($this->book)));
        file_put_contents($this->book, '');

        return $pushes;
    }

    /** @param resource $connection */
    private function serve($connection): void
    {
        $buffer = '';
        for ($read = 1; ! in_array($bytes = fread($connection, 65536), ['', false], true); $read++) {
            $buffer .= $bytes;
            while (strlen($buffer) >= 20 && strlen($buffer) >= 4 + unpack('N', $buffer)[1]) {
                $h = unpack('Nlen/Ctype/Cflags/Ccode/Cprio/Nid/Nttl/nmeta/Cname/Cattempt', $buffer);
                $name = substr($buffer, 20, $h['name']);
                $meta = substr($buffer, 20 + $h['name'], $h['meta']);
                $body = substr($buffer, 20 + $h['name'] + $h['meta'], $h['len'] - 16 - $h['name'] - $h['meta']);
                $buffer = substr($buffer, 4 + $h['len']);
                [$type, $codec, $answer] = match (true) {
                    $h['type'] === Type::HELLO => [Type::WELCOME, 0, '{"v":1,"max_frame":16777215,"max_inflight":1024}'],
                    $name === 'stoker.queue' => [Type::RES, 1, $this->queues()],
                    $name === 'stoker.job' => [Type::RES, 1, '{"jobs":[],"next":null,"state":"unknown"}'],
                    default => [Type::RES, 0, $this->pushed(Meta::decode($meta), $body, $h['id'], $read)],
                };
                fwrite($connection, pack('NCCCCNNnCC', 16 + strlen($answer), $type, 0, 0, $codec, $h['id'], 0, 0, 0, 0) . $answer);
            }
        }
    }

    private function queues(): string
    {
        $queue = ['kind' => 'jobs', 'pool' => 'app', 'name' => 'emails', 'ready' => 3, 'delayed' => 20, 'running' => 100, 'oldest_ms' => 5500];
        $other = ['name' => 'others', 'ready' => 1, 'delayed' => 1, 'running' => 1, 'oldest_ms' => null] + $queue;
        $calls = ['name' => 'emails', 'kind' => 'calls'] + $queue;

        return json_encode(['queues' => [$queue, $calls, $other]]);
    }

    /** @param array<int, string> $meta */
    private function pushed(array $meta, string $body, int $id, int $read): string
    {
        file_put_contents($this->book, base64_encode(serialize([
            'queue' => $meta[Key::QUEUE],
            'tries' => Meta::int($meta[Key::TRIES]),
            'delay' => Meta::int($meta[Key::DELAY] ?? null),
            'due' => Meta::int($meta[Key::DUE_AT] ?? null),
            'backoff' => array_values(unpack('N*', $meta[Key::BACKOFF] ?? '')),
            'timeout' => Meta::int($meta[Key::TIMEOUT] ?? null),
            'type' => $meta[Key::JOB_TYPE] ?? null,
            'key' => $meta[Key::FAIRNESS] ?? null,
            'idempotency' => $meta[Key::IDEMPOTENCY] ?? null,
            'payload' => json_decode($body, true),
            'body' => $body,
            'read' => $read,
        ])) . "\n", FILE_APPEND);

        return "id-$id";
    }
}
