<?php

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\Key;
use Stoker\Wire\Kind;
use Stoker\Wire\Meta;
use Stoker\Wire\Status;
use Stoker\Wire\Type;

/** A process of tests/fixtures/puppet.php, with the server's end of its connection and the pipe for its commands. */
final class Puppet
{
    private const KINDS = [
        Kind::LOG => 'LOG', Kind::PROGRESS => 'PROGRESS', Kind::LAST_WORDS => 'LAST_WORDS', Kind::CHECKPOINT => 'CHECKPOINT', Kind::ACK => 'ACK',
    ];
    private const STATUSES = [
        Status::OK => 'OK', Status::CANCELLED => 'CANCELLED', Status::INVALID_ARGUMENT => 'INVALID_ARGUMENT',
        Status::UNIMPLEMENTED => 'UNIMPLEMENTED', Status::RETRY => 'RETRY', Status::FAILED => 'FAILED',
        Status::RETURNED => 'RETURNED', Status::APPLICATION => 'ERROR',
    ];

    public readonly int $pid;
    private Peer $peer;
    /** @var array<int, resource> */
    private array $pipes;

    /**
     * @param bool $connected whether the worker connects by itself instead of inheriting a socket
     * @param ?int $tasks   number of tasks after which the worker exits; null = no limit
     */
    public function __construct(string $part, bool $connected, ?int $tasks = null)
    {
        $counted = $tasks === null ? [] : ['STOKER_TASKS' => (string) $tasks];
        $descriptors = [0 => ['pipe', 'r'], 1 => ['pipe', 'w'], 2 => STDERR];
        $command = [__DIR__ . '/../fixtures/puppet.php', $part];
        if ($connected) {
            $path = Stage::path();
            $server = stream_socket_server("unix://$path");
            [$process, $this->pipes] = Processes::php($command, $descriptors, ['STOKER_SOCKET' => $path] + $counted);
            $this->peer = new Peer(stream_socket_accept($server, 20));
        } else {
            [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            [$process, $this->pipes] = Processes::php($command, $descriptors + [3 => $theirs], ['STOKER_FD' => '3'] + $counted);
            fclose($theirs);
            $this->peer = new Peer($ours);
        }
        $this->pid = proc_get_status($process)['pid'];
        $this->peer->welcome();
    }

    public function send(Frame ...$frames): void
    {
        $this->peer->send(...$frames);
    }

    public function end(): void
    {
        @stream_socket_shutdown($this->peer->socket, STREAM_SHUT_WR); // The worker may have closed the connection.
    }

    public function command(string $line): void
    {
        fwrite($this->pipes[0], "$line\n");
    }

    public function said(): string
    {
        $read = [$this->pipes[1]];
        $none = null;
        stream_select($read, $none, $none, 20) === 1 || throw new Failure('the worker did not report its next step');

        return trim((string) fgets($this->pipes[1]));
    }

    /** The next frame, by its name in the table, and its id. */
    public function frame(): string
    {
        $frame = $this->peer->next() ?? throw new Failure('the worker closed the connection, or sent nothing');
        $name = match ($frame->type) {
            Type::RES => self::STATUSES[$frame->code] ?? "RES $frame->code",
            Type::EVENT => self::KINDS[$frame->code] ?? "EVENT $frame->code",
            Type::READY => "READY $frame->ttl",
            Type::GOAWAY => 'GOAWAY',
            Type::PONG => 'PONG',
            default => "type $frame->type",
        };

        return "$name of $frame->id";
    }

    /** Waits until the process has ended, and returns the frames that have not been read. */
    public function rest(): array
    {
        fclose($this->pipes[0]);
        $this->end();
        stream_get_contents($this->pipes[1]);
        stream_set_blocking($this->peer->socket, false);
        for ($left = []; ($frame = $this->peer->next()) !== null; $left[] = $frame);
        Processes::end($this->pid);

        return $left;
    }

    public static function task(int $id, string $kind, bool $isJob): Frame
    {
        $meta = $isJob ? [Key::JOB_ID => hex2bin('019a9f3c5e007a1b8c2d0123456789ab')] : [];
        $meta += $kind === 'critical' ? [99 => 'unknown'] : [];
        $name = $kind === 'not served' ? 't.nobody' : ($isJob ? 'queue' : 't.act');

        return Frame::of(Type::REQ, $kind === 'critical' ? 0x80 : 0, 0, 3, $id, 0, 0, $name, Meta::encode($meta), '');
    }
}
