<?php

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/** The server's side of one connection. */
final class Peer
{
    private FrameReader $reader;
    /** @var list<Frame> */
    private array $frames = [];
    public int $reads = 0;

    /** @param resource $socket */
    public function __construct(public $socket)
    {
        stream_set_timeout($this->socket, 20);
        stream_set_chunk_size($this->socket, 65536);
        $this->reader = new FrameReader();
    }

    /** @return array<string, mixed> the fields of HELLO, which is answered with WELCOME */
    public function welcome(array $more = []): array
    {
        $hello = $this->next();
        same(Type::HELLO, $hello?->type, 'the first frame');
        $this->send(Frame::of(Type::WELCOME, body: json_encode($more + ['v' => 1, 'max_frame' => Frame::MAX, 'max_inflight' => 1024])));

        return json_decode($hello->body, true, 16, JSON_THROW_ON_ERROR);
    }

    /** The next frame; null at the end of the connection. */
    public function next(): ?Frame
    {
        while ($this->frames === []) {
            $bytes = fread($this->socket, 65536);
            $this->reads++;
            if ($bytes === '' || $bytes === false) {
                return null;
            }
            $this->frames = $this->reader->feed($bytes);
        }

        return array_shift($this->frames);
    }

    public function send(Frame ...$frames): void
    {
        $bytes = implode('', array_map(fn (Frame $f) => $f->encode(), $frames));
        for ($sent = 0; $sent < strlen($bytes); $sent += $n) {
            $n = @fwrite($this->socket, substr($bytes, $sent)); // The client may have closed the connection.
            if (!$n) {
                return;
            }
        }
    }

    /** Answers a request. */
    public function answer(Frame $to, int $status = 0, string $body = '', int $codec = 0, array $meta = [], int $flags = 0): void
    {
        $this->send(Frame::of(Type::RES, $flags, $status, $codec, $to->id, meta: Meta::encode($meta), body: $body));
    }

    public function close(): void
    {
        stream_socket_shutdown($this->socket, STREAM_SHUT_RDWR);
        fclose($this->socket);
    }
}
