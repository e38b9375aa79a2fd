<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Task;

use function hrtime;

/**
 * Implements Inbox: requests each task with READY. No task is assigned to this process except during next() and until
 * the task that next() returned is answered.
 *
 * @internal
 */
final class Puller
{
    /** Seconds within which the server must confirm a withdrawal; after that the connection counts as lost. */
    private const CONFIRM_TIMEOUT = 10.0;
    /** Seconds to wait for the server to close a connection on which GOAWAY was sent. */
    private const CLOSE_TIMEOUT = 1.0;

    /** @var \WeakMap<self, true>|null all pullers of this process, to be closed when it ends */
    private static ?\WeakMap $all = null;

    private Demand $demand;
    public readonly Loop $loop;
    /** @var list<int> signals for which installSignalHandlers() has installed a handler */
    private array $handledSignals = [];
    /** The loop that was active when the task started. */
    private ?Loop $outer = null;

    private bool $isSpawned;

    public function __construct(WorkerConnection $connection)
    {
        $this->isSpawned = $isSpawned = $connection->isSpawned;
        $this->demand = new Demand($connection->channel);
        $this->loop = new Loop($connection->channel, [], null, $this->demand, null, $connection->session);
        if (self::$all === null) {
            self::$all = new \WeakMap();
            register_shutdown_function(static function (): void {
                foreach (self::$all as $puller => $_) {
                    // Send last words if a task runs, else GOAWAY.
                    $puller->loop->task !== null ? $puller->loop->onShutdown() : $puller->loop->leave();
                }
            });
        }
        self::$all[$this] = true;
        if ($isSpawned) {
            $this->loop->signals->install(true);
        }
        $this->loop->signals->stopLoop = !$isSpawned;
    }

    /** Waits at most $seconds for a task; null if none arrived, a signal arrived, or no more tasks will arrive. */
    public function next(float $seconds): ?Task
    {
        $this->installSignalHandlers();
        try {
            $task = $this->await(hrtime(true) + (int) ($seconds * 1e9));
        } catch (\Throwable $e) { // From a signal handler of the application, or because the worker was rejected.
            $this->cleanUp();
            throw $e;
        }
        if ($task === null) {
            $this->removeSignalHandlers();
        } else {
            Loop::$active === $this->loop || $this->outer = Loop::$active;
            Loop::$active = $this->loop;
        }

        return $task;
    }

    private function await(int $until): ?Task
    {
        while (!$this->loop->isOver()) {
            if (($task = $this->loop->beginNext()) !== null) {
                return $task;
            }
            if ($this->loop->isOver()) { // All waiting tasks had been cancelled.
                break;
            }
            $this->demand->request();
            if (!$this->loop->receive(($until - hrtime(true)) / 1e9)) {
                $this->withdraw();
                if (!$this->loop->isOver()) {
                    return $this->loop->beginNext(); // A task that crossed the withdrawal, if there is one.
                }
            }
        }
        $this->returnAll(); // A task may have arrived together with the signal to stop.

        return null;
    }

    private function returnAll(): void
    {
        if ($this->loop->hasTasks() && !$this->loop->channel->broken) {
            $this->demand->withdraw(true);
            $this->loop->returnAll();
        }
    }

    /** Waits at most $seconds without requesting a task. Returns early at a signal or if no more tasks will arrive. */
    public function sleep(float $seconds): void
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        $this->installSignalHandlers();
        try {
            while (!$this->loop->isOver() && $this->loop->receive(($until - hrtime(true)) / 1e9));
        } finally {
            $this->removeSignalHandlers();
        }
    }

    /** Answers the current task, and makes the loop active again that was active before it. */
    public function end(mixed $result, ?\Throwable $thrown): void
    {
        if ($this->loop->channel->isMine()) {
            $this->loop->end($result, $thrown);
        }
        $this->deactivate();
    }

    /** Hands the current task back to its queue. Call this only if its code has not started. It does not count as an attempt. */
    public function return(): void
    {
        if ($this->loop->channel->isMine()) {
            $this->returnAll();
        }
        $this->deactivate();
    }

    /** Stops taking tasks. Tasks that were assigned here and not started go to other workers; this does not count as an attempt. */
    public function close(): void
    {
        if ($this->loop->channel->isMine()) {
            $this->loop->leave();
            $this->isSpawned || $this->loop->channel->linger(self::CLOSE_TIMEOUT); // The inherited socket stays open until the process ends.
        }
    }

    /** Closes the connection. Sends last words first if the current task has no answer yet. */
    public function __destruct()
    {
        if ($this->loop->task === null) {
            $this->close();
        } elseif ($this->loop->channel->isMine()) {
            // exit() destroys the variables of active functions before it calls shutdown functions.
            $this->loop->onShutdown(isDropped: true);
            $this->isSpawned || $this->loop->channel->close();
        }
        $this->deactivate();
    }

    private function deactivate(): void
    {
        if (Loop::$active === $this->loop) {
            Loop::$active = $this->outer;
        } else {
            foreach (self::$all as $other => $_) { // A task that started later still runs: update its link to this loop.
                $other->outer !== $this->loop || $other->outer = $this->outer;
            }
        }
        $this->outer = null;
        $this->removeSignalHandlers();
    }

    /** After an exception in next(): makes sure that no task stays assigned to this process. */
    private function cleanUp(): void
    {
        $hasSignals = function_exists('pcntl_async_signals');
        $wasAsync = $hasSignals && pcntl_async_signals(false);
        try {
            $this->withdraw();
            $this->returnAll();
            $this->removeSignalHandlers();
        } finally {
            $hasSignals && pcntl_async_signals($wasAsync);
        }
    }

    /** Withdraws the request for a task and waits until the server confirms it. Until then a task may still arrive. */
    private function withdraw(): void
    {
        $until = hrtime(true) + (int) (self::CONFIRM_TIMEOUT * 1e9);
        while (!$this->demand->isSettled() && !$this->loop->isCutOff()) {
            $this->demand->withdraw(); // Does nothing the second time, except over a new connection.
            if (!$this->loop->receive(($until - hrtime(true)) / 1e9) && hrtime(true) >= $until) {
                $this->isSpawned || $this->loop->channel->close();
                break;
            }
        }
    }

    /**
     * Installs handlers for TERM and INT, unless the application has handlers of its own: they end a wait, or take
     * effect when the current task has ended.
     */
    private function installSignalHandlers(): void
    {
        if ($this->isSpawned || $this->handledSignals !== [] || !function_exists('pcntl_async_signals')) {
            return;
        }
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            if (pcntl_signal_get_handler($signal) === SIG_DFL) {
                pcntl_signal($signal, $this->loop->signals->onSignal(...));
                $this->handledSignals[] = $signal;
            }
        }
    }

    /** Removes the handlers that installSignalHandlers() installed. */
    private function removeSignalHandlers(): void
    {
        foreach ($this->handledSignals as $signal) {
            pcntl_signal($signal, SIG_DFL);
        }
        $this->handledSignals = [];
    }
}
