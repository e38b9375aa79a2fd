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
 * A worker's session with a server on another machine. If the connection is lost, the worker reconnects and resumes the
 * session, with the tasks that it has received and the answers that the server may not have received.
 *
 * @internal
 */
final class Session
{
    /** Time limit for one attempt to connect, and for the answer to HELLO, in seconds. */
    private const TIMEOUT = 5.0;

    /** The id that the server gave to this session; null if there is no session to resume. */
    private ?string $id = null;
    /** How long the server keeps the session without a connection, in nanoseconds. */
    private int $grace = 0;
    /** hrtime() at which the connection was lost; null while connected. */
    private ?int $lostAt = null;
    /** hrtime() of the next attempt to connect. */
    private int $nextAttempt = 0;
    /** Number of failures to connect so far, for the backoff; the loss of the connection counts as the first. */
    private int $failures = 0;
    /** Why the connection was lost. */
    private string $why = '';
    /** hrtime() of the last byte from the server, or of the PING that was sent after it. */
    private int $quietSince = 0;
    /** Nanoseconds without a byte from the server after which a PING is sent; 0 = never. */
    private int $quietLimit = 0;
    /** A PING has been sent, and nothing has arrived since. */
    private bool $isProbing = false;
    /** A signal interrupted the last wait in resume(). */
    public bool $wasInterrupted = false;
    /** The bytes that were read after WELCOME. */
    public string $rest = '';
    public readonly Channel $channel;
    public readonly UnconfirmedAnswers $answers;
    /** @var array<int, string> names of the tasks that were answered without a connection, by id */
    private array $unwritten = [];
    /** Number of answers so far, and how many of them the server has confirmed. */
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
                [$this->channel, $welcome] = $this->servers->connect($connect, self::TIMEOUT, null);

                return $this->begin($welcome);
            } catch (ConnectionRefused $e) {
                // Waits only for a server that was reached but has no room for this worker now.
                if ($e->retryAfter === null || hrtime(true) >= $until) {
                    $cause = $e->getPrevious();
                    throw $cause instanceof StokerException && !$cause instanceof ConnectionRefused ? $cause : $e;
                }
                $this->failures++;
                usleep((int) (max($e->retryAfter, Backoff::seconds($this->failures)) * 1e6));
            }
        }
    }

    /** Closes a connection that has ended or does not respond, and plans the first attempt to reconnect. */
    private function onLost(string $why): void
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
     * Waits for bytes and returns them; "" after a timeout or a signal, null if the connection was lost.
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
                $this->onLost('closed by the server');
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
        $this->onLost('a write failed');

        return null;
    }

    /**
     * Waits at most $seconds for the next attempt to reconnect, and makes it if it is due.
     *
     * @param list<int> $held the tasks that this worker is running or has not started
     * @return array<string, mixed>|null the fields of WELCOME; null = not connected yet
     * @throws ConnectionLost  no attempt succeeded within $reconnectFor
     * @throws StokerException the server rejected this worker
     */
    public function resume(array $held, float $seconds): ?array
    {
        $this->onLost('a write failed'); // Does nothing if the loss has been noticed before.
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
            return $this->reconnect([...$this->answers->ids(), ...$held]);
        } catch (ConnectionRefused $e) {
            $since = (hrtime(true) - $this->lostAt) / 1e9;
            if ($e->isMisconfigured) {
                throw $e;
            }
            if ($since >= $this->reconnectFor) {
                throw new ConnectionLost(sprintf('the connection to Stoker was lost (%s), and all attempts to reconnect in the last %.0f seconds have failed: %s', $this->why, $since, $e->getMessage()), 0, $e);
            }
            $this->failures++;
            $this->schedule($e->retryAfter ?? 0.0);
        }

        return null;
    }

    /** Keeps the answer to a task until the server must have received it. Called after the answer was written, or lost. */
    public function onAnswer(int $id, string $name, string $frame): void
    {
        $this->answered++;
        $this->answers->keep($id, $frame);
        if ($this->channel->broken) {
            $this->unwritten[$id] = $name;
        }
    }

    /** Called when the answers that settle() returned have been written. */
    public function onWritten(): void
    {
        $this->unwritten = [];
    }

    /** Whether the server may not have received an answer. */
    public function hasUnconfirmed(): bool
    {
        return $this->answered > $this->confirmed;
    }

    /** Sends a PING. Its PONG confirms all answers so far, because the server reads frames in order. */
    public function ping(): void
    {
        $this->channel->write(Frame::of(Type::PING, id: $this->answered % 0xFFFFFFFF + 1)->encode());
    }

    public function onPong(int $id): void
    {
        $this->confirmed = max($this->confirmed, min($id - 1, $this->answered));
    }

    /** Treats all answers as confirmed. */
    public function confirmAll(): void
    {
        $this->confirmed = $this->answered;
    }

    /**
     * Drops the answers that the server no longer awaits, and reports those that it never received.
     *
     * @param array<int, mixed> $open the tasks of this session whose answer the server has not received, as keys; empty
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
        file_put_contents('php://stderr', "stoker: the answer to task $id ($name) was dropped: this worker reconnected too late, after the server had ended its session\n");
    }

    /**
     * @param list<int> $held
     * @return array<string, mixed> the fields of WELCOME
     * @throws StokerException
     */
    private function reconnect(array $held): array
    {
        $connect = fn (Address $address): array => $this->connect($address, $held);
        // Only the server that has the session can resume it.
        $isBound = $held !== [] && $this->id !== null && hrtime(true) < $this->lostAt + $this->grace;
        [$new, $welcome] = $isBound
            ? $connect($this->servers->current())
            : $this->servers->connect($connect, self::TIMEOUT, null);
        $this->channel->replace($new);

        return $this->begin($welcome);
    }

    /**
     * Connects and sends HELLO.
     *
     * @param list<int> $held
     * @return array{Channel, array<string, mixed>} the new connection and the fields of WELCOME
     * @throws ConnectionRefused the server cannot be reached or, if $retryAfter is set, has no room for this worker now
     * @throws StokerException   the server rejected this worker
     */
    private function connect(Address $address, array $held): array
    {
        $limit = $this->keepalive > 0 ? (int) ceil(2 * $this->keepalive) : 86400;
        $channel = new Channel(Socket::dial($address, self::TIMEOUT), $limit);
        $hello = $this->hello + ($this->id === null ? [] : ['session' => $this->id, 'held' => $held]);
        $warnings = '';
        set_error_handler(static function (int $level, string $message) use (&$warnings): bool {
            $warnings .= "$message\n";

            return true;
        });
        try {
            $channel->write(Frame::of(Type::HELLO, body: json_encode($hello, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE))->encode());
            $frame = $this->readAnswer($channel);
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

    /** Reads the answer to HELLO into a frame, and the bytes that follow into $rest; null if there is no answer. */
    private function readAnswer(Channel $channel): ?Frame
    {
        $until = hrtime(true) + (int) (self::TIMEOUT * 1e9);
        $read = '';
        do {
            $bytes = $channel->readWithin(max(0.0, ($until - hrtime(true)) / 1e9));
            if ($bytes === null || hrtime(true) >= $until) {
                return null;
            }
            $read .= $bytes;
            $length = strlen($read) < 4 ? PHP_INT_MAX : 4 + unpack('N', $read)[1];
            if ($length > 4 + Frame::MAX && $length < PHP_INT_MAX) {
                (new FrameReader())->feed($read); // Throws a WireError with the reason.
            }
        } while (strlen($read) < $length);
        $this->rest = substr($read, $length);

        return (new FrameReader())->feed(substr($read, 0, $length))[0];
    }

    /**
     * @return StokerException the rejection; if another attempt may succeed, a ConnectionRefused with $retryAfter and the
     *                         rejection as its cause
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
     * @return array<string, mixed> $welcome
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

    /** Sends a PING to check the connection, or closes the connection if the last PING was not answered. */
    private function probe(int $now): void
    {
        if ($this->isProbing) {
            $this->onLost(sprintf('the server did not answer a PING within %g seconds', $this->keepalive));
        } else {
            $this->isProbing = true;
            $this->quietSince = $now;
            $this->ping();
        }
    }

    /** @param float $minimum minimum pause before the next attempt, in seconds */
    private function schedule(float $minimum): void
    {
        $this->nextAttempt = hrtime(true) + (int) (max($minimum, Backoff::seconds($this->failures)) * 1e9);
    }
}
