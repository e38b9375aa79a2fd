<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionLost;
use Stoker\ConnectionRefused;
use Stoker\StokerException;
use Stoker\Wire\Frame;
use Stoker\Wire\FrameReader;
use Stoker\Wire\Status;
use Stoker\Wire\Type;
use Stoker\Wire\WireError;

/**
 * A worker's session with a server on another machine. It outlives the connection: when that is lost, the worker opens
 * another one and resumes the session, with the tasks that it has and the answers that it keeps.
 *
 * @internal
 */
final class Session
{
    /** Seconds for one attempt to connect, and for the answer to HELLO. */
    private const LIMIT = 5.0;

    /** The server's id of this session; null if there is none to resume. */
    private ?string $id = null;
    /** Nanoseconds for which the server keeps the session without a connection. */
    private int $grace = 0;
    /** hrtime() at which the connection was lost; null while there is one. */
    private ?int $lostAt = null;
    /** hrtime() before which no attempt to connect is made. */
    private int $nextAttempt = 0;
    /** Number of failed attempts since the connection was lost. */
    private int $failures = 0;
    /** Why the connection was lost or the last attempt failed. */
    private string $why = '';
    /** hrtime() of the last byte from the server, or of the PING that followed it. */
    private int $quietSince = 0;
    /** Nanoseconds without a byte after which a PING is sent over the current connection; 0 = never. */
    private int $quietLimit = 0;
    /** A PING has been sent, and nothing has arrived since. */
    private bool $isProbing = false;
    /** A signal ended the last wait in resume(). */
    public bool $wasInterrupted = false;
    /** What was read after WELCOME. */
    public string $rest = '';
    public readonly Channel $channel;
    public readonly UnconfirmedAnswers $answers;
    /** @var array<int, string> names of the tasks whose answer could not be written, because there was no connection; by id */
    private array $unwritten = [];
    /** Number of answers so far, and how many of them the server is known to have received. */
    private int $answered = 0;
    private int $confirmed = 0;

    /**
     * @param array<string, mixed> $hello fields of HELLO
     * @param float $reconnectFor seconds for which to keep trying to connect
     * @param float $keepalive    seconds without a byte after which a PING is sent; 0 = never
     */
    public function __construct(
        private Servers $servers,
        private array $hello,
        private float $reconnectFor,
        private float $keepalive,
    ) {
        $this->answers = new UnconfirmedAnswers();
    }

    /**
     * Opens the first connection.
     *
     * @return array<string, mixed> the fields of WELCOME
     * @throws ConnectionRefused no server can be reached
     * @throws StokerException   the server rejected this worker
     */
    public function open(): array
    {
        $until = hrtime(true) + (int) ($this->reconnectFor * 1e9);
        while (true) {
            try {
                $connect = fn (Address $address): array => $this->connect($address, []);
                [$this->channel, $welcome] = $this->servers->connect($connect, self::LIMIT, null);

                return $this->begin($welcome);
            } catch (ConnectionRefused $e) {
                // Only a server that was reached and had no room for this worker is worth a wait.
                if ($e->retryAfter === null || hrtime(true) >= $until) {
                    $cause = $e->getPrevious();
                    throw $cause instanceof StokerException && !$cause instanceof ConnectionRefused ? $cause : $e;
                }
                $this->failures++;
                usleep((int) (max($e->retryAfter, Backoff::seconds($this->failures)) * 1e6));
            }
        }
    }

    /** The connection has ended, or counts as lost. */
    public function lose(string $why): void
    {
        $this->channel->close();
        if ($this->lostAt === null) {
            $this->lostAt = hrtime(true);
            $this->failures = 1;
            $this->why = $why;
            $this->schedule(0.0);
        }
    }

    /**
     * Waits for bytes and returns them; "" if the time is up or a signal arrived, null if the connection is lost.
     *
     * @param ?float $seconds maximum time to wait; null = no limit
     */
    public function read(?float $seconds): ?string
    {
        $until = $seconds === null ? INF : hrtime(true) + $seconds * 1e9;
        while (!$this->channel->broken) {
            $probeAt = $this->quietLimit > 0 ? $this->quietSince + $this->quietLimit : INF;
            $limit = min($until, $probeAt);
            $bytes = $this->channel->readWithin($limit === INF ? null : max(0.0, ($limit - hrtime(true)) / 1e9));
            $now = hrtime(true);
            if ($bytes === null) {
                $this->lose('closed by the server');
            } elseif ($bytes !== '') {
                $this->quietSince = $now;
                $this->isProbing = false;

                return $bytes;
            } elseif ($now >= $probeAt) {
                $this->probe($now);
            } else {
                return '';
            }
            if ($now >= $until && !$this->channel->broken) {
                return '';
            }
        }
        $this->lose('a write failed');

        return null;
    }

    /**
     * Waits at most $seconds and then, if it is time for it, makes one attempt to resume the session.
     *
     * @param list<int> $held the tasks that this worker runs or has waiting
     * @return array<string, mixed>|null the fields of WELCOME; null = no connection yet
     * @throws ConnectionLost  the time for attempts is over
     * @throws StokerException the server rejected this worker
     */
    public function resume(array $held, float $seconds): ?array
    {
        $this->lose('a write failed'); // Does nothing if the loss is known.
        $this->wasInterrupted = false;
        $until = min($this->nextAttempt, hrtime(true) + (int) ($seconds * 1e9));
        if (($wait = $until - hrtime(true)) > 0) {
            usleep(intdiv($wait, 1000) + 1);
            $this->wasInterrupted = hrtime(true) < $until;
        }
        if (hrtime(true) < $this->nextAttempt) {
            return null;
        }
        try {
            return $this->attempt([...$this->answers->ids(), ...$held]);
        } catch (ConnectionRefused $e) {
            $since = (hrtime(true) - $this->lostAt) / 1e9;
            if ($e->isMisconfigured) {
                throw $e;
            }
            if ($since >= $this->reconnectFor) {
                throw new ConnectionLost(sprintf('the connection to Stoker was lost (%s), and no attempt of the last %.0f seconds to connect again succeeded: %s', $this->why, $since, $e->getMessage()), 0, $e);
            }
            $this->failures++;
            $this->schedule($e->retryAfter ?? 0.0);
        }

        return null;
    }

    /** Keeps the answer to a task, which has just been written unless there was no connection. */
    public function onAnswer(int $id, string $name, string $frame): void
    {
        $this->answered++;
        $this->answers->keep($id, $frame);
        if ($this->channel->broken) {
            $this->unwritten[$id] = $name;
        }
    }

    /** The answers that settle() returned have been written. */
    public function onWritten(): void
    {
        $this->unwritten = [];
    }

    /** Whether there is an answer that the server may not have received. */
    public function hasUnconfirmed(): bool
    {
        return $this->answered > $this->confirmed;
    }

    /** Sends a PING whose PONG confirms all answers so far, because the server reads frames in their order. */
    public function ping(): void
    {
        $this->channel->write(Frame::of(Type::PING, id: $this->answered % 0xFFFFFFFF + 1)->encode());
    }

    public function onPong(int $id): void
    {
        $this->confirmed = max($this->confirmed, min($id - 1, $this->answered));
    }

    /** No answer needs a confirmation any more. */
    public function confirmAll(): void
    {
        $this->confirmed = $this->answered;
    }

    /**
     * Forgets the answers that the server does not await any more, and reports those that it never got.
     *
     * @param array<int, mixed> $open the tasks of this session that the server has not got an answer to, as keys; empty
     *                                if the session was not resumed
     * @return string the frames to write again
     */
    public function settle(array $open): string
    {
        foreach (array_diff_key($this->unwritten, $open) as $id => $name) {
            self::reportLate($id, $name);
        }
        $this->unwritten = array_intersect_key($this->unwritten, $open);
        $frames = $this->answers->select($open);
        $frames === '' && $this->confirmAll();

        return $frames;
    }

    public static function reportLate(int $id, string $name): void
    {
        file_put_contents('php://stderr', "stoker: the answer to task $id ($name) came too late: the server had given the task up because the connection was lost\n");
    }

    /**
     * @param list<int> $held
     * @return array<string, mixed> the fields of WELCOME
     * @throws StokerException
     */
    private function attempt(array $held): array
    {
        $connect = fn (Address $address): array => $this->connect($address, $held);
        // Only the server that has the session can resume it.
        $isBound = $held !== [] && $this->id !== null && hrtime(true) < $this->lostAt + $this->grace;
        [$new, $welcome] = $isBound
            ? $connect($this->servers->current())
            : $this->servers->connect($connect, self::LIMIT, null);
        $this->channel->replace($new);

        return $this->begin($welcome);
    }

    /**
     * Connects and sends HELLO.
     *
     * @param list<int> $held
     * @return array{Channel, array<string, mixed>} the new connection and the fields of WELCOME
     * @throws ConnectionRefused the server cannot be reached; with $retryAfter: it has no room for this worker now
     * @throws StokerException   the server rejected this worker
     */
    private function connect(Address $address, array $held): array
    {
        $limit = $this->keepalive > 0 ? (int) ceil(2 * $this->keepalive) : 86400;
        $channel = new Channel(Socket::dial($address, self::LIMIT), $limit);
        $hello = $this->hello + ($this->id === null ? [] : ['session' => $this->id, 'held' => $held]);
        $warnings = '';
        set_error_handler(static function (int $level, string $message) use (&$warnings): bool {
            $warnings .= "$message\n";

            return true;
        });
        try {
            $channel->write(Frame::of(Type::HELLO, body: json_encode($hello, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE))->encode());
            $frame = $this->first($channel);
        } catch (WireError $e) {
            throw Tls::refused($address, $e->getMessage(), false);
        } finally {
            restore_error_handler();
        }
        if ($frame?->type === Type::WELCOME) {
            return [$channel, json_decode($frame->body, true) ?: []];
        }
        $channel->close();
        if ($frame?->type === Type::RES) {
            throw self::rejected($frame);
        }
        $alert = TlsFailure::ofAlert($address, $warnings);
        throw Tls::refused($address, $alert ?? 'it did not answer HELLO', $alert !== null);
    }

    /** Reads the answer to HELLO; null if there is none. What follows it is in $rest. */
    private function first(Channel $channel): ?Frame
    {
        $until = hrtime(true) + (int) (self::LIMIT * 1e9);
        $read = '';
        do {
            $bytes = $channel->readWithin(max(0.0, ($until - hrtime(true)) / 1e9));
            if ($bytes === null || hrtime(true) >= $until) {
                return null;
            }
            $read .= $bytes;
            $length = strlen($read) < 4 ? PHP_INT_MAX : 4 + unpack('N', $read)[1];
            if ($length > 4 + Frame::MAX && $length < PHP_INT_MAX) {
                (new FrameReader())->feed($read); // Throws, with the reason.
            }
        } while (strlen($read) < $length);
        $this->rest = substr($read, $length);

        return (new FrameReader())->feed(substr($read, 0, $length))[0];
    }

    /**
     * @return StokerException ConnectionRefused, with the rejection as its cause and $retryAfter set, if another attempt
     *                         may succeed
     */
    private static function rejected(Frame $frame): StokerException
    {
        $rejected = StokerException::fromAnswer($frame, 'Stoker rejected this worker');
        if (!in_array($frame->code, [Status::UNAVAILABLE, Status::RESOURCE_EXHAUSTED], true)) {
            return $rejected;
        }
        $e = new ConnectionRefused($rejected->getMessage(), 0, $rejected);
        $e->retryAfter = $rejected->retryAfter ?? 0.0;

        return $e;
    }

    /**
     * @param array<string, mixed> $welcome
     * @return array<string, mixed> the same
     */
    private function begin(array $welcome): array
    {
        if (($welcome['resumed'] ?? false) !== true || isset($welcome['session'])) {
            $this->id = $welcome['session'] ?? null;
        }
        $this->grace = isset($welcome['grace_ms']) ? $welcome['grace_ms'] * 1_000_000 : $this->grace;
        $this->quietLimit = $this->servers->current()->isRemote() ? (int) ($this->keepalive * 1e9) : 0;
        $this->lostAt = null;
        $this->failures = 0;
        $this->quietSince = hrtime(true);
        $this->isProbing = false;

        return $welcome;
    }

    /** Finds out with a PING whether the server is still there. If the last PING had no effect, it is not. */
    private function probe(int $now): void
    {
        if ($this->isProbing) {
            $this->lose(sprintf('the server did not answer a PING within %g seconds', $this->keepalive));
        } else {
            $this->isProbing = true;
            $this->quietSince = $now;
            $this->ping();
        }
    }

    private function schedule(float $least): void
    {
        $this->nextAttempt = hrtime(true) + (int) (max($least, Backoff::seconds($this->failures)) * 1e9);
    }
}
