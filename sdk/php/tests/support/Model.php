<?php

declare(strict_types=1);

namespace Stoker\Tests;

/** What a worker is to do by the table: told the events, it says which frames follow. */
final class Model
{
    /** @var array<int, string> what waits, in its order: how each of them begins */
    public array $held = [];
    public ?int $running = null;
    /** Something was printed, and its line has no end yet. */
    private bool $half = false;
    /** Withdrawals of READY that the broker has not confirmed. */
    public int $unconfirmed = 0;
    /** @var list<int> tasks that have begun since the last look */
    public array $begun = [];

    /** @param list<string> $flags */
    public function __construct(public readonly Table $table, public string $state, public array $flags = [], private ?int $left = null)
    {
    }

    /** What has happened to a task so far, as the events of the table name it. */
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
     * What follows from an event, until the worker waits for the next one.
     *
     * @return list<string> the frames that are sent, each with the id that it has
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
            $this->flags[] = 'stops'; // It was the last that it takes.
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

    /** GOAWAY and READY are about the connection. */
    private static function named(string $frame, int $id): string
    {
        return in_array($frame, ['GOAWAY', 'READY 0', 'READY 1'], true) ? "$frame of 0" : "$frame of $id";
    }
}
