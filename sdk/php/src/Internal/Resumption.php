<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionLost;
use Stoker\StokerException;

use function hrtime;

/** What a worker does differently if its server is on another machine: a lost connection is replaced. @internal */
final class Resumption
{
    /** Maximum time of one wait, in seconds. */
    private const WAIT_LIMIT = 1.0;
    /** Seconds within which the server must confirm the answers of a worker that exits. */
    private const CONFIRM_TIMEOUT = 5.0;

    public function __construct(private Loop $loop, private Session $session, private ?Demand $demand)
    {
    }

    /** Waits for bytes between tasks; "" if none have arrived, null at the end. If the connection is lost, makes one attempt to resume. */
    public function wait(): ?string
    {
        if (!$this->loop->channel->broken && ($bytes = $this->session->read(self::WAIT_LIMIT)) !== null) {
            return $bytes;
        }
        if (!$this->isPossible()) {
            return null;
        }
        $this->reconnect(self::WAIT_LIMIT);

        return '';
    }

    /**
     * Waits at most $seconds for frames, and processes them. False if none arrived in time or a signal arrived; also true
     * while it tries to reconnect.
     */
    public function receive(float $seconds): bool
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        if (!$this->loop->channel->broken && ($bytes = $this->session->read($seconds)) !== null) {
            $this->loop->take($bytes);

            return $bytes !== '';
        }
        try {
            $this->isPossible() ? $this->reconnect($seconds) : $this->loop->draining = true;
        } catch (ConnectionLost $e) {
            file_put_contents('php://stderr', "stoker: {$e->getMessage()}\n");
        }

        return $this->loop->draining || !$this->session->wasInterrupted && (!$this->loop->channel->broken || hrtime(true) < $until);
    }

    public function isPossible(): bool
    {
        return !$this->loop->draining && !$this->loop->goAwaySent;
    }

    /**
     * Begins a session, or resumes it over a new connection.
     *
     * @param array<string, mixed> $welcome the fields of WELCOME
     */
    public function adopt(array $welcome): void
    {
        $loop = $this->loop;
        // Tasks of this session that the server has no answer to. If the session was not resumed, there are none.
        $open = ($welcome['resumed'] ?? false) === true ? array_fill_keys($welcome['open'] ?? [], true) : [];
        $known = $loop->waiting->names() + array_fill_keys($this->session->answers->ids(), true);
        if ($loop->task !== null && !$loop->channel->muted) {
            $known[$loop->task->id] = true;
            $loop->channel->muted = !isset($open[$loop->task->id]);
        }
        $this->demand?->renew(array_diff_key($open, $known) !== []);
        $loop->waiting->keepOnly($open);
        $loop->receiver->restart($welcome);
        if (($answers = $this->session->settle($open)) !== '') {
            $loop->channel->write($answers);
            $loop->channel->broken || $this->session->onWritten();
        }
        $loop->receiver->take($this->session->rest, hrtime(true));
    }

    /**
     * Makes sure that the server has received the answers, because nobody could write them again after this worker's exit.
     *
     * @throws ConnectionLost no attempt to reconnect succeeded within $reconnectFor
     */
    public function confirmAnswers(): void
    {
        while ($this->isPossible() && $this->session->hasUnconfirmed()) {
            $this->loop->channel->broken ? $this->reconnect(self::WAIT_LIMIT) : $this->confirm();
        }
    }

    /** Waits until the server confirms the answers, the connection is lost, or the time is up. */
    private function confirm(): void
    {
        $this->session->ping();
        $until = hrtime(true) + (int) (self::CONFIRM_TIMEOUT * 1e9);
        while ($this->session->hasUnconfirmed() && !$this->loop->draining) {
            if (hrtime(true) >= $until) {
                $this->session->confirmAll(); // The server is connected but too busy to answer PING: stop waiting.
            } elseif (($bytes = $this->session->read(max(0.0, ($until - hrtime(true)) / 1e9))) === null) {
                return;
            } else {
                $this->loop->receiver->take($bytes, hrtime(true));
            }
        }
    }

    /**
     * Makes a step towards a new connection: waits at most $seconds, or makes an attempt.
     *
     * @throws ConnectionLost  the time for attempts is over
     * @throws StokerException the server rejected this worker
     */
    private function reconnect(float $seconds): void
    {
        $loop = $this->loop;
        $held = array_keys($loop->waiting->names());
        if ($loop->task !== null && !$loop->channel->muted) {
            $held[] = $loop->task->id;
        }
        $wasBusy = $loop->channel->writing;
        $loop->channel->writing = true; // A soft cancel must not interrupt this.
        try {
            $welcome = $this->session->resume($held, $seconds);
            $welcome === null || $this->adopt($welcome);
        } catch (StokerException $e) {
            $loop->draining = true; // There will be no more tasks.
            throw $e;
        } finally {
            $loop->channel->writing = $wasBusy;
        }
        $wasBusy || $loop->channel->throwInterrupt();
    }
}
