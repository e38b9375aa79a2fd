<?php

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Meta;
use Stoker\Wire\Type;

/** A fake server for one worker: starts a script of tests/fixtures on a socket pair and exchanges frames with it. */
final class Probe
{
    /** Seconds after which a wait for a frame fails. */
    private const PATIENCE = 20;

    public readonly int $pid;
    /** @var array<string, mixed> */
    public readonly array $hello;
    /** @var resource */
    private $socket;
    /** @var resource */
    private $process;
    /** @var resource */
    private $stdout;
    private FrameReader $reader;
    /** @var list<Frame> */
    private array $frames = [];
    private ?string $printed = null;

    /**
     * @param list<string> $arguments arguments of the script
     * @param list<string> $ini       PHP settings, such as "memory_limit=32M"
     * @param string|null  $stderr    file to which the worker's stderr goes; default: the stderr of the tests
     */
    public function __construct(array $arguments = [], array $ini = [], string $script = 'worker.php', ?string $stderr = null)
    {
        [$this->socket, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $command = [];
        foreach ($ini as $setting) {
            array_push($command, '-d', $setting);
        }
        [$this->process, $pipes] = Processes::php(
            [...$command, __DIR__ . "/../fixtures/$script", ...$arguments],
            [1 => ['pipe', 'w'], 2 => $stderr === null ? STDERR : ['file', $stderr, 'w'], 3 => $theirs],
            ['STOKER_FD' => '3'],
        );
        fclose($theirs);
        $this->stdout = $pipes[1];
        $this->pid = proc_get_status($this->process)['pid'];
        stream_set_timeout($this->socket, self::PATIENCE);
        stream_set_chunk_size($this->socket, 65536);
        $this->reader = new FrameReader();
        $first = $this->next();
        same(Type::HELLO, $first->type, 'the first frame');
        $this->hello = json_decode($first->body, true, 16, JSON_THROW_ON_ERROR);
    }

    public function welcome(array $more = []): self
    {
        $this->send(Frame::of(Type::WELCOME, body: json_encode($more + ['v' => 1, 'worker' => 'app-1', 'pool' => 'app'])));

        return $this;
    }

    /** @param Frame|string ...$frames written in one write */
    public function send(Frame|string ...$frames): void
    {
        $bytes = '';
        foreach ($frames as $frame) {
            $bytes .= is_string($frame) ? $frame : $frame->encode();
        }
        same(strlen($bytes), fwrite($this->socket, $bytes), 'bytes written to the worker');
    }

    /** Sends a task and returns its answer. $events receives the frames before the answer, usually events. */
    public function ask(Frame $task, ?array &$events = null): Frame
    {
        $this->send($task);
        for ($events = []; ($frame = $this->next())->type !== Type::RES; $events[] = $frame);
        same($task->id, $frame->id, 'id of the answer');

        return $frame;
    }

    /** Waits until the worker requests a task with READY, and sends this one. */
    public function grant(Frame $task): self
    {
        same([Type::READY, 0, 1], [($ready = $this->next())->type, $ready->id, $ready->ttl], 'READY');
        $this->send($task);

        return $this;
    }

    /** Calls grant() and returns the answer. $events receives the frames before the answer. */
    public function pulled(Frame $task, ?array &$events = null): Frame
    {
        $this->grant($task);
        for ($events = []; ($frame = $this->next())->type !== Type::RES; $events[] = $frame);
        same($task->id, $frame->id, 'id of the answer');

        return $frame;
    }

    /** Repeats a signal until the worker sends something, because one that arrives just before a wait has no effect. */
    public function signal(int $signal): void
    {
        do {
            posix_kill($this->pid, $signal);
            $read = [$this->socket];
            $none = null;
        } while ($this->frames === [] && stream_select($read, $none, $none, 0, 100_000) === 0);
    }

    /** The next frame. Fails if the worker has closed the connection or sends nothing for PATIENCE seconds. */
    public function next(): Frame
    {
        return $this->nextOrEnd() ?? throw new Failure('the worker closed its socket');
    }

    public function nextOrEnd(): ?Frame
    {
        while ($this->frames === []) {
            $bytes = fread($this->socket, 65536);
            if ($bytes === '' || $bytes === false) {
                stream_get_meta_data($this->socket)['timed_out'] and throw new Failure('the worker sent nothing');
                same(false, $this->reader->isInsideFrame(), 'a frame cut short');

                return null;
            }
            $this->frames = $this->reader->feed($bytes);
        }

        return array_shift($this->frames);
    }

    /** @return list<Frame> all frames until the worker has ended */
    public function rest(): array
    {
        // The worker inherited a copy of this end too, so only its death closes the connection. Its stdout ends then.
        $this->stdout();
        stream_set_blocking($this->socket, false);
        for ($frames = $this->frames; ($bytes = (string) fread($this->socket, 65536)) !== '';) {
            array_push($frames, ...$this->reader->feed($bytes));
        }

        return $frames;
    }

    public function halfClose(): void
    {
        stream_socket_shutdown($this->socket, STREAM_SHUT_WR);
    }

    /** Waits until the worker has ended, and returns its stdout. */
    public function stdout(): string
    {
        return $this->printed ??= stream_get_contents($this->stdout);
    }

    /** Waits until the worker has ended, and returns its exit code, or 128 + the signal. */
    public function exitCode(): int
    {
        $this->stdout();
        do {
            $status = proc_get_status($this->process);
        } while ($status['running'] && pcntl_waitpid($this->pid, $raw, WNOHANG) === 0);

        return $status['running'] ? (pcntl_wifexited($raw) ? pcntl_wexitstatus($raw) : 128 + pcntl_wtermsig($raw))
            : ($status['signaled'] ? 128 + $status['termsig'] : $status['exitcode']);
    }

    public static function call(string $name, string $body = '', int $id = 1, int $ttl = 0, array $meta = [], int $flags = 0): Frame
    {
        return Frame::of(Type::REQ, $flags, 1, 3, $id, $ttl, 0, $name, Meta::encode($meta), $body);
    }

    public static function job(string $queue, string $body = '', int $id = 1, int $attempt = 0, array $meta = []): Frame
    {
        $meta = [16 => hex2bin('019a9f3c5e007a1b8c2d0123456789ab')] + $meta;

        return Frame::of(Type::REQ, 0, 0, 3, $id, 0, $attempt, $queue, Meta::encode($meta), $body);
    }

    /**
     * Joins the log events of one task.
     *
     * @param list<Frame> $events
     */
    public static function logged(array $events, int $id, int $stream = 1): string
    {
        $bytes = '';
        foreach ($events as $event) {
            if ($event->type === Type::EVENT && $event->code === 1 && $event->id === $id && $event->prio === $stream) {
                $bytes .= $event->body;
            }
        }

        return $bytes;
    }
}
