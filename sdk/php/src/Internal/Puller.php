<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\Task;

use function hrtime;

/**
 * Takes tasks one by one, each only after it has asked for it: outside of next() and of the task that it returned, this
 * process holds nothing.
 *
 * @internal
 */
final class Puller
{
    /** Seconds that the broker has to confirm a withdrawal; who is silent for longer is taken for lost. */
    private const CONFIRM = 10.0;
    /** Seconds that the broker has to close a connection that is being left. */
    private const PART = 1.0;

    /** @var \WeakMap<self, true>|null those that the end of the process has to part from */
    private static ?\WeakMap $all = null;

    private Demand $demand;
    public readonly Loop $loop;
    /** @var list<int> signals that have our handler for the time being */
    private array $shielded = [];
    /** What was active when the task began. */
    private ?Loop $outer = null;

    /** @param resource $stream */
    public function __construct($stream, private bool $isSpawned)
    {
        $channel = new Channel($stream);
        $this->demand = new Demand($channel);
        $this->loop = new Loop($channel, [], null, $this->demand);
        if (self::$all === null) {
            self::$all = new \WeakMap();
            register_shutdown_function(static function (): void {
                foreach (self::$all as $puller => $_) {
                    // With a task: last words. Without one: it takes no more.
                    $puller->loop->task !== null ? $puller->loop->die() : $puller->loop->leave();
                }
            });
        }
        self::$all[$this] = true;
        if ($isSpawned) {
            $this->loop->hearSignals(true);
        }
        $this->loop->isWakeable = !$isSpawned;
    }

    /** The next task; null when none came in so many seconds, or a signal came, or the loop is over. */
    public function next(float $seconds): ?Task
    {
        $this->shield();
        try {
            $task = $this->await(hrtime(true) + (int) ($seconds * 1e9));
        } catch (\Throwable $e) { // Of somebody's signal handler, or the broker does not want this worker.
            $this->undo();
            throw $e;
        }
        if ($task === null) {
            $this->unshield();
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
            if ($this->loop->isOver()) { // All that was here had been cancelled.
                break;
            }
            $this->demand->ask();
            if (!$this->loop->receive(($until - hrtime(true)) / 1e9)) {
                $this->withdraw();
                if (!$this->loop->isOver()) {
                    return $this->loop->beginNext(); // It crossed the withdrawal.
                }
            }
        }
        $this->returnAll(); // It came with the signal to stop.

        return null;
    }

    private function returnAll(): void
    {
        if ($this->loop->hasTasks() && !$this->loop->channel->broken) {
            $this->demand->withdraw(true);
            $this->loop->returnAll();
        }
    }

    /** Waits for so many seconds without asking for a task; ends at a signal, and when the loop is over. */
    public function rest(float $seconds): void
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        $this->shield();
        try {
            while (!$this->loop->isOver() && $this->loop->receive(($until - hrtime(true)) / 1e9));
        } finally {
            $this->unshield();
        }
    }

    /** Answers the task, and lets whatever it interrupted go on. */
    public function end(mixed $result, ?\Throwable $thrown): void
    {
        if ($this->loop->channel->isMine()) {
            $this->loop->end($result, $thrown);
        }
        $this->ended();
    }

    /** Returns the task, whose code has not run: it costs it nothing. */
    public function return(): void
    {
        if ($this->loop->channel->isMine()) {
            $this->returnAll();
        }
        $this->ended();
    }

    /** Takes no more; what has been sent here and was not taken goes to other workers, at no cost. */
    public function close(): void
    {
        if ($this->loop->channel->isMine()) {
            $this->loop->leave();
            $this->isSpawned || $this->hangUp(); // A spawned worker's socket ends with its process.
        }
    }

    /** Nobody will use this any more. A task without an answer is the broker's to judge, by last words. */
    public function __destruct()
    {
        if ($this->loop->task === null) {
            $this->close();
        } elseif ($this->loop->channel->isMine()) {
            // exit() drops what the functions that it leaves hold, before any shutdown function is called.
            $this->loop->die(isDropped: true);
            $this->isSpawned || $this->loop->channel->close();
        }
        $this->ended();
    }

    private function ended(): void
    {
        if (Loop::$active === $this->loop) {
            Loop::$active = $this->outer;
        } else {
            foreach (self::$all as $other => $_) { // It began later, and goes on.
                $other->outer !== $this->loop || $other->outer = $this->outer;
            }
        }
        $this->outer = null;
        $this->unshield();
    }

    /** Sees that nothing is held here, whatever has been interrupted. */
    private function undo(): void
    {
        $hasSignals = function_exists('pcntl_async_signals');
        $wasAsync = $hasSignals && pcntl_async_signals(false);
        try {
            $this->withdraw();
            $this->returnAll();
            $this->unshield();
        } finally {
            $hasSignals && pcntl_async_signals($wasAsync);
        }
    }

    /** Until the broker has confirmed it, a task that crossed may come. */
    private function withdraw(): void
    {
        $this->demand->withdraw();
        $until = hrtime(true) + (int) (self::CONFIRM * 1e9);
        while (!$this->demand->isSettled() && !$this->loop->isCutOff()) {
            if (!$this->loop->receive(($until - hrtime(true)) / 1e9) && hrtime(true) >= $until) {
                $this->isSpawned || $this->loop->channel->close();
                break;
            }
        }
    }

    /** The broker closes the connection when it has read all that was written here before. */
    private function hangUp(): void
    {
        $until = hrtime(true) + (int) (self::PART * 1e9);
        $channel = $this->loop->channel;
        while (!$channel->broken && hrtime(true) < $until) {
            if ($channel->readWithin(max(0.0, ($until - hrtime(true)) / 1e9)) === null) {
                break;
            }
        }
        $channel->close();
    }

    /** From here on TERM and INT end the waiting, or wait for the end of the task, where nobody else handles them. */
    private function shield(): void
    {
        if ($this->isSpawned || $this->shielded !== [] || !function_exists('pcntl_async_signals')) {
            return;
        }
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            if (pcntl_signal_get_handler($signal) === SIG_DFL) {
                pcntl_signal($signal, $this->loop->hear(...));
                $this->shielded[] = $signal;
            }
        }
    }

    private function unshield(): void
    {
        foreach ($this->shielded as $signal) {
            pcntl_signal($signal, SIG_DFL);
        }
        $this->shielded = [];
    }
}
