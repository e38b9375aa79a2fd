<?php

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Wire\Frame;
use Stoker\Wire\Kind;
use Stoker\Wire\Type;

/** Random events, applied to the model and to a worker process of the SDK, which must send the same frames. */
final class Walk
{
    /** Number of different task ids: few, so that ids are reused often. */
    private const IDS = 4;
    /** States in which the worker reads frames. */
    private const READS = ['idle', 'acks', 'rests', 'asks', 'withdraws'];

    private Model $model;
    private Puppet $puppet;
    /** @var list<array{string, int, string}> frames that were sent and that the worker has not read */
    private array $unread = [];
    /** @var array<int, bool> whether the last task with an id was a job */
    private array $isJob = [];
    /** The server has closed its side of the connection. */
    private bool $ended = false;
    /** The worker pulls and has requested a task, so one may be sent. */
    private bool $isAsked = false;
    /** The worker waits with a short time limit. */
    private bool $isShort = false;
    /** The worker executes a command and has not reported its end. */
    private bool $isBusy = false;
    /** @var list<string> the events and frames so far, for the failure message */
    private array $story = [];

    public function __construct(private string $part, Table $table, private bool $connected)
    {
        // Every third worker is limited to a few tasks.
        $tasks = $part === 'runs' && mt_rand(0, 2) === 0 ? mt_rand(1, 3) : null;
        $this->model = new Model($table, $part === 'runs' ? 'idle' : 'away', $connected ? ['connected'] : [], $tasks);
        $this->puppet = new Puppet($part, $connected, $tasks);
    }

    public function go(int $steps): void
    {
        try {
            for ($step = 0; $step < $steps && $this->model->state !== 'gone'; $step++) {
                $this->step();
            }
            if ($this->model->state === 'gone') {
                same([], array_map(fn (Frame $f) => "$f->type:$f->id", $this->puppet->rest()), 'frames after its end');
            }
        } catch (Failure $e) {
            throw new Failure($e->getMessage() . "\n  " . implode("\n  ", $this->story));
        }
    }

    private function step(): void
    {
        $events = $this->possible();
        shuffle($events);
        $unused = array_filter($events, fn (string $event): bool => !isset($this->model->table->used[$this->model->row($event) ?? -1]));
        $event = mt_rand(0, 4) > 0 && $unused !== [] ? reset($unused) : $events[0];
        $this->story[] = "{$this->model->state}: $event";
        match ($event) {
            'read' => $this->reads(),
            'send' => $this->sends(),
            'USR1' => $this->struck(),
            'TERM' => $this->terminated(),
            default => $this->does($event),
        };
    }

    /** @return list<string> the events that may happen next */
    private function possible(): array
    {
        if ($this->isShort) {
            return ['time is up'];
        }
        $state = $this->model->state;
        $events = in_array($state, self::READS, true) ? ['read', 'read'] : [];
        if ($this->part === 'runs') {
            $events[] = 'TERM';
            // In other states the test cannot detect when the worker has handled a signal that has no effect.
            if (in_array($state, ['idle', 'runs'], true) || in_array('struck', $this->model->flags, true)) {
                $events[] = 'USR1';
            }
        }
        foreach ($this->model->table->rows as $row) {
            $isOwn = in_array($row['on'][0], range('a', 'z'), true) && !in_array($row['on'], ['read', 'none', 'time is up'], true);
            $isNow = in_array($state, $row['in'], true) && array_diff($row['if'] ?? [], $this->model->flags) === [];
            if ($isOwn && $isNow && $this->isAllowed($row['on'])) {
                $events[] = $row['on'];
            }
        }
        if (!$this->ended && ($state === 'runs' || $state === 'away')) {
            array_push($events, 'send', ...($state === 'runs' ? ['send', 'send'] : []));
        }

        return array_values($events);
    }

    /** Whether the event is possible for the current task: some events are possible only for jobs. */
    private function isAllowed(string $event): bool
    {
        $ofJobs = ['ack', 'checkpoint', 'retries', 'fails'];

        return !in_array($event, $ofJobs, true) || $this->isJob[$this->model->running ?? 0] ?? false;
    }

    /** Lets the worker's own code cause an event. */
    private function does(string $event): void
    {
        if ($event === 'time is up') {
            $this->isShort = false;
        } else {
            $isWait = in_array($event, ['rest', 'take'], true) && !array_intersect(['told', 'stops'], $this->model->flags);
            $this->isShort = $isWait && $this->unread === [] && !$this->ended && mt_rand(0, 2) === 0;
            $this->puppet->command($this->isShort ? "$event a moment" : $event);
            $this->isBusy = !in_array($event, ['close', 'exits', 'calls exit', 'is killed'], true);
        }
        $sent = $this->model->on($event);
        $this->isAsked = $this->isAsked || in_array('READY 1 of 0', $sent, true);
        $this->expect($sent);
        $this->readAll();
    }

    /** Applies all unread frames, if the worker is in a state in which it reads. */
    private function readAll(): void
    {
        if (in_array($this->model->state, self::READS, true) && ($this->unread !== [] || $this->ended)) {
            $this->expect($this->take());
            $this->readAll();
        }
    }

    /** Sends frames that the worker reads at once. */
    private function reads(): void
    {
        $this->sends();
        $this->expect($this->take());
        $this->readAll();
    }

    /** @return list<string> the frames that the model sends after it has read all unread frames */
    private function take(): array
    {
        $sent = [];
        [$unread, $this->unread] = [$this->unread, []];
        foreach ($unread as [$frame, $id, $kind]) {
            $event = in_array($frame, ['CANCEL', 'ACK'], true) ? "$frame of " . $this->model->about($id) : $frame;
            array_push($sent, ...$this->model->on($event, $id, $kind));
        }
        if ($unread === [] && $this->ended) {
            $sent = $this->model->on('END');
        }
        if (!in_array($this->model->state, self::READS, true)) {
            return $sent;
        }

        return [...$sent, ...$this->model->on('read')];
    }

    /** Sends a few random frames in one write. */
    private function sends(): void
    {
        if ($this->ended) {
            return;
        }
        $frames = [];
        for ($count = mt_rand(1, 5); $count > 0; $count--) {
            $frames[] = $this->frame();
        }
        // When the PONG arrives, the worker has read all frames that were sent before the PING.
        $this->unread[] = ['PING', $id = mt_rand(1, 9), ''];
        $frames[] = Frame::of(Type::PING, id: $id);
        $this->story[] = '  ' . implode(', ', array_map(fn (array $f) => "$f[0] $f[1] $f[2]", array_slice($this->unread, -count($frames))));
        $this->puppet->send(...array_filter($frames));
        if (mt_rand(0, $this->model->state === 'acks' ? 4 : 14) === 0) {
            $this->story[] = '  END';
            $this->ended = true;
            $this->puppet->end();
        }
    }

    private function frame(): ?Frame
    {
        $known = [...array_keys($this->model->held), ...array_column(array_slice($this->unread, -1), 1)];
        $id = match (mt_rand(0, 3)) {
            0, 1 => $this->model->running ?? mt_rand(1, self::IDS),
            2 => ($known[array_rand($known ?: [0])] ?? 0) ?: mt_rand(1, self::IDS),
            default => mt_rand(1, self::IDS),
        };
        $pulls = $this->part === 'pulls';
        $isKnown = $this->model->about($id) !== 'over' || in_array(['REQ', $id], array_map(fn (array $f) => [$f[0], $f[1]], $this->unread), true);
        switch (mt_rand(0, 9)) {
            case 0:
                $this->unread[] = ['GOAWAY', 0, ''];

                return Frame::of(Type::GOAWAY);
            case 1: case 2: case 3:
                $this->unread[] = ['CANCEL', $id, ''];

                return Frame::of(Type::CANCEL, id: $id);
            case 4: case 5:
                return $pulls ? $this->confirmation() : $this->acknowledgement($id);
            default:
                if ($isKnown || $pulls && !$this->isAsked) {
                    return null;
                }
                $kinds = $pulls ? ['served'] : ['served', 'served', 'served', 'not served', 'critical'];
                $kind = $kinds[mt_rand(0, count($kinds) - 1)];
                $this->isJob[$id] = $pulls || mt_rand(0, 1) === 1 && $kind !== 'not served';
                $this->unread[] = ['REQ', $id, $kind];
                $this->isAsked = false;

                return Puppet::task($id, $kind, $this->isJob[$id]);
        }
    }

    private function acknowledgement(int $id): Frame
    {
        $this->unread[] = ['ACK', $id, ''];

        return Frame::of(Type::EVENT, code: Kind::ACK, id: $id);
    }

    /** Confirms a READY 0 that is not confirmed yet. After the last one, no task is sent until the next request. */
    private function confirmation(): ?Frame
    {
        $left = $this->model->unconfirmed - count(array_filter($this->unread, static fn (array $f): bool => $f[0] === 'READY'));
        if ($left <= 0) {
            return null;
        }
        $this->isAsked = $this->isAsked && !($left === 1 && $this->model->state === 'withdraws');
        $this->unread[] = ['READY', 0, ''];

        return Frame::of(Type::READY);
    }

    /** Sends SIGUSR1. A worker that runs a task first reads all frames, to find out whether its task is meant. */
    private function struck(): void
    {
        $sent = [];
        if ($this->model->state === 'runs') {
            $this->sends();
            $sent = in_array('struck', $this->model->flags, true) ? [] : $this->take();
        }
        posix_kill($this->puppet->pid, SIGUSR1);
        $this->expect([...$sent, ...$this->model->on('USR1')]);
        $this->settle();
    }

    /** Waits until a running handler has handled the signal, so that later events come after it. */
    private function settle(): void
    {
        if ($this->model->state === 'runs') {
            $this->puppet->command('nothing');
            same('did', $this->puppet->said());
        }
        $this->readAll();
    }

    private function terminated(): void
    {
        posix_kill($this->puppet->pid, SIGTERM);
        $this->expect($this->model->on('TERM'));
        $this->settle();
    }

    /** @param list<string> $sent frames that the worker must send now, in this order and without others between them */
    private function expect(array $sent): void
    {
        foreach ($sent as $frame) {
            same($frame, $this->puppet->frame(), 'what it sends');
        }
        foreach ($this->model->begun as $id) {
            same("runs $id", $this->puppet->said());
            $this->isBusy = false;
        }
        $this->model->begun = [];
        $done = match ($this->model->state) {
            'runs' => 'did',
            'away' => 'away',
            'gone' => $this->part === 'pulls' ? 'closed' : null,
            default => null,
        };
        if ($this->isBusy && $done !== null) {
            same($done, $this->puppet->said());
            $this->isBusy = false;
        }
    }
}
