//! Workers with several slots: each begins its tasks when it likes, reports that, and answers them in any order.

use crate::agenda::What;
use crate::ledger::{Ack, Answer};
use crate::lively::Act;
use crate::model::Task;
use crate::programs::of_program;
use crate::runs::{BLOCKED, HANGS};
use crate::worker::{Worker, task_of};
use crate::world::World;
use std::collections::VecDeque;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Type;

/// A task in a slot.
pub(crate) struct Held {
    /// The number of the task's run.
    pub(crate) no: u64,
    pub(crate) task: Task,
    pub(crate) is_begun: bool,
    /// The task's code has acknowledged its job.
    has_acked: bool,
    is_cancelled: bool,
    acts: VecDeque<(Duration, Act)>,
}

/// The slots of a worker and the tasks in them.
pub(crate) struct Slots {
    pub(crate) most: usize,
    pub(crate) held: Vec<Held>,
    /// The server has asked the worker to shut down. It does so when it has no task left.
    is_told: bool,
    /// The worker has sent a GOAWAY, and reads nothing more.
    has_left: bool,
    /// The worker's process is about to end.
    pub(crate) is_gone: bool,
    /// The worker is an adapter, which starts a program per task.
    pub(crate) is_adapter: bool,
}

/// A frame that the worker has read.
enum Received {
    Task(Task),
    Cancel(u32),
    Ack(u32),
    Ping,
    Goes,
}

impl Slots {
    pub(crate) fn new(most: u16) -> Self {
        Self {
            most: usize::from(most),
            held: Vec::new(),
            is_told: false,
            has_left: false,
            is_gone: false,
            is_adapter: false,
        }
    }

    pub(crate) fn of_adapter(most: u16) -> Self {
        Self {
            is_adapter: true,
            ..Self::new(most)
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.held.len() < self.most && !self.is_told()
    }

    pub(crate) fn is_told(&self) -> bool {
        self.is_told || self.has_left || self.is_gone
    }

    pub(crate) fn reads(&self) -> bool {
        !self.has_left && !self.is_gone
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = Task> {
        self.held.iter().map(|held| held.task)
    }

    pub(crate) fn find(&mut self, no: u64) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.no == no)
    }

    fn take(&mut self, no: u64) -> Option<Held> {
        let at = self.held.iter().position(|held| held.no == no)?;
        Some(self.held.remove(at))
    }

    pub(crate) fn of_id(&mut self, id: u32) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.task.id == id)
    }
}

impl World {
    pub(crate) fn slots_look(&mut self, key: u64) {
        self.flush(key);
        let Some(worker) = self.workers.get_mut(&key).filter(|worker| worker.looks()) else {
            return;
        };
        let (mut all, looked_at) = (Vec::new(), worker.looked_at);
        let (ledger, setup) = (&mut self.ledger, &self.setup);
        let ended = worker.peer.take(|frame| match frame.kind {
            Type::Req => all.push(Received::Task(task_of(&frame, looked_at, ledger, setup))),
            Type::Cancel => all.push(Received::Cancel(frame.id)),
            Type::Event => all.push(Received::Ack(frame.id)),
            Type::Ping => all.push(Received::Ping),
            Type::Goaway => all.push(Received::Goes),
            Type::Res => panic!("the server refuses an honest worker: {frame:?}"),
            _ => {}
        });
        worker.looked_at = steady();
        if ended.expect("the server writes frames") {
            all.push(Received::Goes);
        }
        all.into_iter()
            .for_each(|heard| self.slots_receive(key, heard));
        self.leave_if_empty(key);
    }

    fn slots_receive(&mut self, key: u64, heard: Received) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(slots) = &mut worker.slots else {
            return;
        };
        match heard {
            Received::Task(task) => self.slots_take(key, task),
            Received::Ping => worker.send("PONG", 0, b""),
            Received::Goes => slots.is_told = true,
            Received::Ack(id) => {
                if let Some(held) = slots.of_id(id) {
                    let (no, has_acked) = (held.task.no, held.has_acked);
                    assert!(
                        has_acked,
                        "job {no}: an acknowledgement that it has not asked for"
                    );
                    self.ledger.acknowledged(no, Ack::Safe);
                }
            }
            Received::Cancel(id) if slots.is_adapter => self.program_is_cancelled(key, id),
            Received::Cancel(id) => {
                let Some(held) = slots.of_id(id) else { return };
                held.is_cancelled = true;
                let begun = held.is_begun.then_some(held.no);
                if let Some(no) = begun.filter(|_| self.dice("workers").percent(60)) {
                    self.slots_answer(key, no, "ERROR", Answer::Error);
                }
            }
        }
    }

    /// The worker takes a task, and begins it soon or after a while.
    fn slots_take(&mut self, key: u64, task: Task) {
        self.runs += 1;
        let no = self.runs;
        let longest = self.setup.longest_us;
        let wait = match self.dice("slots").percent(70) {
            true => Duration::ZERO,
            false => self.dice("slots").micros(0, longest),
        };
        let Some(slots) = self.slots(key) else { return };
        slots.held.push(Held {
            no,
            task,
            is_begun: false,
            has_acked: false,
            is_cancelled: false,
            acts: VecDeque::new(),
        });
        let (has, most) = (slots.held.len(), slots.most);
        assert!(has <= most, "worker {key} has {has} tasks, in {most} slots");
        if slots.is_adapter {
            self.slot_begins(key, no);
            return self.plan_slot(key, no);
        }
        self.agenda.plan(steady() + wait, What::RunGoesOn(key, no));
    }

    pub(crate) fn has_slots(&self, key: u64) -> bool {
        let worker = self.workers.get(&key);
        worker.is_some_and(|worker| worker.slots.is_some())
    }

    pub(crate) fn slots(&mut self, key: u64) -> Option<&mut Slots> {
        self.workers.get_mut(&key)?.slots.as_mut()
    }

    /// A task begins, or its code goes on.
    pub(crate) fn slot_goes_on(&mut self, key: u64, no: u64) {
        let is_blocked = !self.flush(key);
        let slots = self.slots(key).filter(|slots| !slots.is_gone);
        let Some(held) = slots.and_then(|slots| slots.find(no)) else {
            return;
        };
        if is_blocked {
            let again = steady() + BLOCKED;
            return self.agenda.plan(again, What::RunGoesOn(key, no));
        }
        match (held.is_begun, held.is_cancelled) {
            (true, _) => {
                if let Some((_, act)) = held.acts.pop_front() {
                    self.slot_acts(key, no, act);
                }
            }
            (false, true) => self.slot_drops(key, no),
            (false, false) => self.slot_begins(key, no),
        }
        self.plan_slot(key, no);
        self.leave_if_empty(key);
    }

    /// The task was cancelled before it began.
    fn slot_drops(&mut self, key: u64, no: u64) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(held) = worker.slots.as_mut().and_then(|slots| slots.take(no)) else {
            return;
        };
        worker.send("CANCELLED", held.task.id, b"");
        match held.task.is_job {
            true => self.ledger.dropped(held.task.no),
            false => self.ledger.calls.ended(held.task.no),
        }
        self.flush(key);
    }

    fn slot_begins(&mut self, key: u64, no: u64) {
        let Some(task) = self.slots(key).and_then(|slots| Some(slots.find(no)?.task)) else {
            return;
        };
        let mut acts = self.acts_of(key, task);
        if self.workers.get(&key).is_some_and(Worker::is_adapter) {
            acts = acts.into_iter().filter_map(of_program).collect();
        }
        if let Some(held) = self.slots(key).and_then(|slots| slots.find(no)) {
            (held.is_begun, held.acts) = (true, acts);
        }
        // A worker with one slot does not report a start: whatever it was sent has begun.
        let several = |worker: &&mut Worker| worker.width() > 1;
        if let Some(worker) = self.workers.get_mut(&key).filter(several) {
            worker.send("STARTED", task.id, b"");
        }
        self.flush(key);
        self.note_begin(key, task);
    }

    /// The task makes a request of its own. Only one task does so at a time, because they share a connection.
    fn slot_asks(&mut self, key: u64, no: u64, task: Task) {
        let is_free = |worker: &&mut Worker| !worker.own.waits;
        if let Some(worker) = self.workers.get_mut(&key).filter(is_free) {
            worker.own.run = Some(no);
            self.own_requests(key, task);
        }
    }

    pub(crate) fn plan_slot(&mut self, key: u64, no: u64) {
        let waits = |worker: &Worker| worker.own.run == Some(no);
        if self.workers.get(&key).is_some_and(waits) {
            return;
        }
        let held = self.slots(key).and_then(|slots| slots.find(no));
        let next = held.and_then(|held| held.acts.front().map(|(after, _)| *after));
        if let Some(after) = next {
            self.agenda.plan(steady() + after, What::RunGoesOn(key, no));
        }
    }

    fn slot_acts(&mut self, key: u64, no: u64, act: Act) {
        let Some(task) = self.slots(key).and_then(|slots| Some(slots.find(no)?.task)) else {
            return;
        };
        match act {
            Act::Writes => self.write_output(key, task),
            Act::Dies => {
                if let Some(worker) = self.workers.get_mut(&key) {
                    worker.crashes = true;
                }
                self.dies(key, true);
            }
            Act::Crashes => self.program_dies(key, no),
            Act::Hangs => {
                if let Some(slots) = self.slots(key)
                    && let adapts = slots.is_adapter
                    && let Some(held) = slots.find(no)
                {
                    let end = if adapts { Act::Crashes } else { Act::Dies };
                    held.acts.push_back((HANGS, end));
                }
            }
            Act::Calls => self.slot_asks(key, no, task),
            Act::Retries(after) => self.slots_answer(key, no, "RETRY", Answer::Retry(after)),
            Act::Does("throws") => self.slots_answer(key, no, "ERROR", Answer::Error),
            Act::Does("fails") => self.slots_answer(key, no, "FAILED", Answer::Failed),
            Act::Does("returned") => {
                self.slots_leave(key);
                self.slots_answer(key, no, "OK", Answer::Done);
            }
            Act::Does("returns") | Act::BreaksProtocol => {
                self.slots_answer(key, no, "OK", Answer::Done);
            }
            Act::Does("exits") => {
                if let Some(worker) = self.workers.get_mut(&key) {
                    worker.send("LAST_WORDS", 0, b"");
                }
                self.slots_go(key);
            }
            Act::Does(event) => self.slot_does(key, &task, event),
        }
    }

    /// An act of the task's code before the end of the run.
    fn slot_does(&mut self, key: u64, task: &Task, event: &str) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        match event {
            "progress" => worker.send("PROGRESS", task.id, b""),
            "checkpoint" => {
                let job = &mut self.ledger.jobs[task.no as usize];
                worker.saves = job.saves_more();
                worker.send("CHECKPOINT", task.id, b"");
            }
            "ack" => {
                worker.send("ACK", task.id, b"");
                let held = worker.slots.as_mut().and_then(|slots| slots.of_id(task.id));
                if let Some(held) = held {
                    held.has_acked = true;
                }
                self.ledger.acknowledged(task.no, Ack::Asked);
            }
            "prints a line" | "log" => {
                worker.printed = task.mark() + "\n";
                worker.send("LOG", task.id, b"");
            }
            "stop" => self.slots_leave(key),
            _ => {}
        }
        self.flush(key);
    }

    pub(crate) fn slots_answer(&mut self, key: u64, no: u64, frame: &str, answer: Answer) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(held) = worker.slots.as_mut().and_then(|slots| slots.take(no)) else {
            return;
        };
        self.slot_stops(key, no);
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if let Answer::Retry(after) = answer {
            worker.retry_after = after;
        }
        let result = format!("{}.", held.task.no);
        worker.send(frame, held.task.id, result.as_bytes());
        worker.ended.push((held.task, answer));
        self.flush(key);
    }

    /// The worker takes no more tasks: it finishes those that it has begun, and returns the others.
    fn slots_leave(&mut self, key: u64) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(slots) = worker.slots.as_mut().filter(|slots| !slots.has_left) else {
            return;
        };
        slots.has_left = true;
        let (begun, back): (Vec<Held>, Vec<Held>) =
            slots.held.drain(..).partition(|held| held.is_begun);
        slots.held = begun;
        worker.send("GOAWAY", 0, b"");
        self.ledger.has_leavers = true;
        for held in back.iter().filter(|held| held.task.is_job) {
            self.ledger.left_behind(held.task.no);
        }
        self.flush(key);
    }

    /// The worker is asked to shut down.
    pub(crate) fn slots_goaway(&mut self, key: u64) {
        self.slots_leave(key);
        self.leave_if_empty(key);
    }

    fn leave_if_empty(&mut self, key: u64) {
        let Some(slots) = self.slots(key) else { return };
        if slots.held.is_empty() && (slots.is_told || slots.has_left) {
            self.slots_go(key);
        }
    }

    /// The worker's process ends, whatever tasks it has.
    fn slots_go(&mut self, key: u64) {
        let Some(slots) = self.slots(key) else { return };
        if !std::mem::replace(&mut slots.is_gone, true) {
            slots.held.iter_mut().for_each(|held| held.acts.clear());
            self.plan_death(key, false);
        }
    }
}
