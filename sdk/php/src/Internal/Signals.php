<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\TaskTimeout;

use function hrtime;

/** What TERM, INT and the signal of a soft cancel do to a worker. @internal */
final class Signals
{
    /** TERM and INT must end the wait for tasks, because the server does not ask this worker to exit. */
    public bool $stopLoop = false;

    public function __construct(private Loop $loop)
    {
    }

    /**
     * Keeps TERM and INT from killing this process in the middle of a task. They are sent by programs that stop a
     * whole control group, and by Stoker late in the grace period. Without ext-pcntl this does nothing.
     *
     * @param bool $isSpawned whether Stoker started this process. Then the signals are ignored, because GOAWAY says
     *                        when to exit and waiting tasks may still have to be served
     */
    public function install(bool $isSpawned): void
    {
        if (!function_exists('pcntl_async_signals')) {
            return;
        }
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            // SIG_IGN is not used, because programs that a task starts would inherit it.
            pcntl_signal_get_handler($signal) !== SIG_DFL || pcntl_signal($signal, $this->onSignal(...));
        }
        $this->stopLoop = !$isSpawned;
    }

    /** Handler of TERM and INT. */
    public function onSignal(int $signal): void
    {
        if (!$this->loop->channel->isMine()) {
            // This is a child that a handler forked: the signal must kill it as usual.
            pcntl_signal($signal, SIG_DFL);
            function_exists('posix_kill') ? posix_kill(getmypid(), $signal) : exit(128 + $signal);
        } elseif ($this->stopLoop) {
            $this->loop->stopping = true;
        }
    }

    /** Handler of SIGUSR1: applies a soft cancel to the active loop of this process. */
    public static function softCancelActive(): void
    {
        Loop::$active?->signals->softCancel();
    }

    /**
     * Handles a soft cancel (SIGUSR1). PHP throws the exception of a signal handler in the code that was interrupted.
     *
     * @throws TaskTimeout the soft cancel is meant for the current task
     */
    public function softCancel(): void
    {
        $loop = $this->loop;
        if (!$loop->running || !$loop->channel->isMine() || $loop->link->parts?->isCancelled) {
            return; // In the last case, the handler cleans up already.
        }
        if ($loop->channel->writing) {
            $loop->channel->interrupted = true; // Deferred until the frame is complete.
        } elseif ($this->isCurrentTaskCancelled()) {
            // If this interrupts the callback of the output buffer, PHP disables the buffer, so it must be opened
            // again.
            $loop->output->open = false;
            $loop->task?->cancelled();
            throw new TaskTimeout();
        }
    }

    /** Whether a soft cancel is meant for the current task: the server sends CANCEL with its id before the signal. */
    private function isCurrentTaskCancelled(): bool
    {
        $loop = $this->loop;
        $channel = $loop->channel;
        do {
            $channel->interrupted = false;
            $channel->writing = true;
            try {
                while (!$loop->cancelReceived && !$channel->broken && !in_array($bytes = $channel->readWithin(0.0), ['', null], true)) {
                    $loop->receiver->take($bytes, hrtime(true));
                }
            } finally {
                $channel->writing = false;
            }
            // Another signal arrived after the last read: its CANCEL may have arrived since.
        } while ($channel->interrupted && !$loop->cancelReceived);
        $channel->interrupted = false;

        return $loop->cancelReceived;
    }
}
