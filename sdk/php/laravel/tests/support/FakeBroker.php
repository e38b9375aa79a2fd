<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Stoker\Tests\Processes;
use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Key;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/** Takes pushes and writes them down, in a process of its own; knows one queue when asked. */
final class FakeBroker
{
    private string $book;

    public function __construct(string $socket)
    {
        $this->book = "$socket.pushes";
        touch($this->book);
        $listener = stream_socket_server("unix://$socket");
        Processes::fork(function () use ($listener): void {
            while ($connection = @stream_socket_accept($listener, 60)) {
                stream_set_chunk_size($connection, 65536);
                $reader = new FrameReader();
                for ($read = 1; ($bytes = fread($connection, 65536)) !== false && $bytes !== ''; $read++) {
                    $reader->feed($bytes);
                    while (($frame = $reader->next()) !== null) {
                        fwrite($connection, $this->answer($frame, $read)->encode());
                    }
                }
            }
        });
    }

    /** @return list<array<string, mixed>> what was pushed since the last call */
    public function pushes(): array
    {
        $pushes = array_map('unserialize', array_map('base64_decode', file($this->book)));
        file_put_contents($this->book, '');

        return $pushes;
    }

    private function answer(Frame $frame, int $read): Frame
    {
        if ($frame->type === Type::HELLO) {
            return Frame::of(Type::WELCOME, body: '{"v":1,"max_frame":16777215,"max_inflight":1024}');
        }
        if ($frame->name === 'stoker.queue') {
            $queue = ['name' => 'emails', 'ready' => 3, 'delayed' => 20, 'running' => 100, 'oldest_ms' => 5500];

            return Frame::of(Type::RES, prio: 1, id: $frame->id, body: json_encode(['queues' => [$queue]]));
        }
        $meta = Meta::decode($frame->meta);
        file_put_contents($this->book, base64_encode(serialize([
            'queue' => $meta[Key::QUEUE],
            'tries' => Meta::int($meta[Key::TRIES]),
            'delay' => Meta::int($meta[Key::DELAY] ?? null),
            'backoff' => array_values(unpack('N*', $meta[Key::BACKOFF] ?? '')),
            'timeout' => Meta::int($meta[Key::TIMEOUT] ?? null),
            'payload' => json_decode($frame->body, true),
            'body' => $frame->body,
            'read' => $read,
        ])) . "\n", FILE_APPEND);

        return Frame::of(Type::RES, id: $frame->id, body: "id-$frame->id");
    }
}
