<?php

declare(strict_types=1);

namespace Stoker\Tests;

/** A model of a worker that follows the table: given an event, it returns the frames that the worker must send. */
final class Model
{
    /** @var array<int, string> waiting tasks in their order: the event with which each of them starts, by id */
    public array $held = [];
    public ?int $running = null;
    /** The task has printed an incomplete line that has not been sent. */
    private bool $half = false;
    /** Number of withdrawals (READY 0) that the server has not confirmed. */
    public int $unconfirmed = 0;
    /** @var list<int> ids of tasks that have started since Walk last checked */
    public array $begun = [];

    /**
     * @param list<string> $flags flags that are set at the start
     * @param ?int         $left  number of tasks after which the worker exits; null = no limit
     */
    public function __construct(public readonly Table $table, public string $state, public array $flags = [], private ?int $left = null)
    {
    }

    /** The state of a task, in the words of the table's events. */
    public function about(int $id): string
    {
        return match (true) {
            $id === $this->running => 'runs',
            !isset($this->held[$id]) => 'over',
            $this->held[$id] === 'cancelled' => 'cancelled',
            default => 'waits',
        };
    }

    public function row(string $event): ?int
    {
        $confirmed = $this->unconfirmed === 0 ? ['confirmed'] : [];

        return $this->table->find($this->state, $event, [...$this->flags, ...$confirmed]);
    }

    /**
     * Applies an event and the steps that follow from it, until the worker waits for the next event.
     *
     * @return list<string> the frames that the worker sends, each with its id
     */
    public function on(string $event, ?int $id = null, string $kind = 'served'): array
    {
        $sent = $this->apply($event, $id ?? $this->running ?? 0, $kind);
        while (in_array($this->state, ['begins', 'looks', 'settled'], true)) {
            $first = array_key_first($this->held);
            array_push($sent, ...$this->apply($first === null ? 'none' : $this->held[$first], $first ?? 0, ''));
        }

        return $sent;
    }

    private function apply(string $event, int $id, string $kind): array
    {
        $no = $this->row($event) ?? throw new Failure("the table has no row for \"$event\" in {$this->state}");
        if (($this->table->rows[$no]['task'] ?? '') === 'over' && $this->left !== null && --$this->left === 0) {
            $this->flags[] = 'stops'; // That was the last task that the worker may take.
            $no = $this->row($event);
        }
        $row = $this->table->rows[$no];
        $this->table->used[$no] = ($this->table->used[$no] ?? 0) + 1;
        $this->half = $this->half || $event === 'prints half a line';
        $sent = [];
        foreach ($row['sends'] ?? [] as $frame) {
            if ($frame !== 'LOG?' || $this->half) {
                $sent[] = self::named(rtrim($frame, '?'), $id);
            }
            $this->half = $this->half && !str_starts_with($frame, 'LOG');
        }
        $this->unconfirmed = max(0, $this->unconfirmed + ($row['confirms'] ?? 0));
        $this->flags = [...array_diff($this->flags, $row['clears'] ?? []), ...$row['sets'] ?? []];
        $this->move($row['task'] ?? '', $id, $kind);
        $this->state = $row['next'] ?? $this->state;

        return $sent;
    }

    private function move(string $to, int $id, string $kind): void
    {
        switch ($to) {
            case 'waits':
                $this->held[$id] = $kind;
                break;
            case 'cancelled':
                $this->held[$id] = 'cancelled';
                break;
            case 'runs':
                unset($this->held[$id]);
                $this->running = $this->begun[] = $id;
                break;
            case 'over':
                unset($this->held[$id]);
                $this->running = $this->running === $id ? null : $this->running;
        }
    }

    /** The frame with its id, which is 0 for GOAWAY and READY, because they are about the connection. */
    private static function named(string $frame, int $id): string
    {
        return in_array($frame, ['GOAWAY', 'READY 0', 'READY 1'], true) ? "$frame of 0" : "$frame of $id";
    }
}
