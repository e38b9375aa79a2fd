//! Workers with several slots: each may begin its tasks at any time, reports their start, and answers them in any
//! order.

use crate::agenda::PlannedEvent;
use crate::behaviour::Act;
use crate::ledger::{Ack, Answer};
use crate::link::Replay;
use crate::model::Task;
use crate::payload::result;
use crate::programs::as_program_act;
use crate::runs::{HANG_TIME, WRITE_RETRY_INTERVAL};
use crate::worker::{Worker, task_of};
use crate::world::World;
use std::collections::VecDeque;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Type;

/// A task in a slot.
pub(crate) struct SlotTask {
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
    pub(crate) capacity: usize,
    pub(crate) tasks: Vec<SlotTask>,
    /// The server has asked the worker to shut down. It does so when it has no task left.
    shutdown_requested: bool,
    /// The worker has sent a GOAWAY, and reads nothing more.
    has_left: bool,
    /// The worker's process is about to end.
    pub(crate) is_ending: bool,
    /// The worker is an adapter, which starts a program per task.
    pub(crate) is_adapter: bool,
}

/// A frame that the worker has read.
enum Received {
    Task(Task),
    Cancel(u32),
    Ack(u32),
    Ping,
    Goaway,
}

impl Slots {
    pub(crate) fn new(capacity: u16) -> Self {
        Self {
            capacity: usize::from(capacity),
            tasks: Vec::new(),
            shutdown_requested: false,
            has_left: false,
            is_ending: false,
            is_adapter: false,
        }
    }

    pub(crate) fn of_adapter(capacity: u16) -> Self {
        Self {
            is_adapter: true,
            ..Self::new(capacity)
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.tasks.len() < self.capacity && !self.is_shutting_down()
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown_requested || self.has_left || self.is_ending
    }

    pub(crate) fn reads(&self) -> bool {
        !self.has_left && !self.is_ending
    }

    pub(crate) fn assigned_tasks(&self) -> impl Iterator<Item = Task> {
        self.tasks.iter().map(|slot_task| slot_task.task)
    }

    pub(crate) fn find(&mut self, no: u64) -> Option<&mut SlotTask> {
        self.tasks.iter_mut().find(|slot_task| slot_task.no == no)
    }

    fn take(&mut self, no: u64) -> Option<SlotTask> {
        let at = self.tasks.iter().position(|slot_task| slot_task.no == no)?;
        Some(self.tasks.remove(at))
    }

    pub(crate) fn of_id(&mut self, id: u32) -> Option<&mut SlotTask> {
        self.tasks
            .iter_mut()
            .find(|slot_task| slot_task.task.id == id)
    }
}

impl World {
    pub(crate) fn slots_read(&mut self, key: u64) {
        self.flush(key);
        let Some(worker) = self.workers.get_mut(&key).filter(|worker| worker.reads()) else {
            return;
        };
        let (mut all, read_at) = (Vec::new(), worker.read_at);
        let (ledger, setup) = (&mut self.ledger, &self.setup);
        let ended = worker.connection.take(|frame| match frame.kind {
            Type::Req => all.push(Received::Task(task_of(
                &frame,
                read_at,
                Replay::NONE,
                ledger,
                setup,
            ))),
            Type::Cancel => all.push(Received::Cancel(frame.id)),
            Type::Event => all.push(Received::Ack(frame.id)),
            Type::Ping => all.push(Received::Ping),
            Type::Goaway => all.push(Received::Goaway),
            Type::Res => panic!("the server rejected a worker: {frame:?}"),
            _ => {}
        });
        worker.read_at = steady();
        if ended.expect("the server writes valid frames") {
            all.push(Received::Goaway);
        }
        all.into_iter()
            .for_each(|received| self.slots_receive(key, received));
        self.leave_if_empty(key);
    }

    fn slots_receive(&mut self, key: u64, received: Received) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(slots) = &mut worker.slots else {
            return;
        };
        match received {
            Received::Task(task) => self.add_slot_task(key, task),
            Received::Ping => worker.send("PONG", 0, b""),
            Received::Goaway => slots.shutdown_requested = true,
            Received::Ack(id) => {
                if let Some(slot_task) = slots.of_id(id) {
                    let (no, has_acked) = (slot_task.task.no, slot_task.has_acked);
                    assert!(
                        has_acked,
                        "job {no}: an acknowledgement was confirmed that it had not sent"
                    );
                    self.ledger.acknowledged(no, Ack::Stored);
                }
            }
            Received::Cancel(id) if slots.is_adapter => self.program_is_cancelled(key, id),
            Received::Cancel(id) => {
                let Some(slot_task) = slots.of_id(id) else {
                    return;
                };
                slot_task.is_cancelled = true;
                let begun = slot_task.is_begun.then_some(slot_task.no);
                if let Some(no) = begun.filter(|_| self.dice("workers").percent(60)) {
                    self.slots_answer(key, no, "ERROR", Answer::Error);
                }
            }
        }
    }

    /// The worker takes a task, and begins it soon or after a while.
    fn add_slot_task(&mut self, key: u64, task: Task) {
        self.runs += 1;
        let no = self.runs;
        let longest = self.setup.max_run_us;
        let wait = match self.dice("slots").percent(70) {
            true => Duration::ZERO,
            false => self.dice("slots").micros(0, longest),
        };
        let Some(slots) = self.slots(key) else { return };
        slots.tasks.push(SlotTask {
            no,
            task,
            is_begun: false,
            has_acked: false,
            is_cancelled: false,
            acts: VecDeque::new(),
        });
        let (has, capacity) = (slots.tasks.len(), slots.capacity);
        assert!(
            has <= capacity,
            "worker {key} has {has} tasks for {capacity} slots"
        );
        if slots.is_adapter {
            self.begin_slot_task(key, no);
            return self.plan_slot(key, no);
        }
        self.agenda
            .plan(steady() + wait, PlannedEvent::RunContinues(key, no));
    }

    pub(crate) fn has_slots(&self, key: u64) -> bool {
        let worker = self.workers.get(&key);
        worker.is_some_and(|worker| worker.slots.is_some())
    }

    pub(crate) fn slots(&mut self, key: u64) -> Option<&mut Slots> {
        self.workers.get_mut(&key)?.slots.as_mut()
    }

    /// A task begins, or its code goes on.
    pub(crate) fn continue_slot(&mut self, key: u64, no: u64) {
        let is_blocked = !self.flush(key);
        let slots = self.slots(key).filter(|slots| !slots.is_ending);
        let Some(slot_task) = slots.and_then(|slots| slots.find(no)) else {
            return;
        };
        if is_blocked {
            let again = steady() + WRITE_RETRY_INTERVAL;
            return self.agenda.plan(again, PlannedEvent::RunContinues(key, no));
        }
        match (slot_task.is_begun, slot_task.is_cancelled) {
            (true, _) => {
                if let Some((_, act)) = slot_task.acts.pop_front() {
                    self.slot_acts(key, no, act);
                }
            }
            (false, true) => self.drop_slot_task(key, no),
            (false, false) => self.begin_slot_task(key, no),
        }
        self.plan_slot(key, no);
        self.leave_if_empty(key);
    }

    /// The task was cancelled before it began.
    fn drop_slot_task(&mut self, key: u64, no: u64) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(slot_task) = worker.slots.as_mut().and_then(|slots| slots.take(no)) else {
            return;
        };
        worker.send("CANCELLED", slot_task.task.id, b"");
        worker.record_ended(slot_task.task);
        match slot_task.task.is_job {
            true => self.ledger.dropped(slot_task.task.no),
            false => self.ledger.calls.ended(slot_task.task.no),
        }
        self.flush(key);
    }

    fn begin_slot_task(&mut self, key: u64, no: u64) {
        let Some(task) = self.slots(key).and_then(|slots| Some(slots.find(no)?.task)) else {
            return;
        };
        let mut acts = self.draw_acts(key, task);
        if self.workers.get(&key).is_some_and(Worker::is_adapter) {
            acts = acts.into_iter().filter_map(as_program_act).collect();
        }
        if let Some(slot_task) = self.slots(key).and_then(|slots| slots.find(no)) {
            (slot_task.is_begun, slot_task.acts) = (true, acts);
        }
        // A worker with one slot does not report a start: every task that it was sent counts as begun.
        let several = |worker: &&mut Worker| worker.slot_count() > 1;
        if let Some(worker) = self.workers.get_mut(&key).filter(several) {
            worker.send("STARTED", task.id, b"");
        }
        self.flush(key);
        self.record_start(key, task);
    }

    /// The task makes a request of its own. Only one task does so at a time, because they share a connection.
    fn request_from_slot(&mut self, key: u64, no: u64, task: Task) {
        let is_free = |worker: &&mut Worker| !worker.nested.waits;
        if let Some(worker) = self.workers.get_mut(&key).filter(is_free) {
            worker.nested.run = Some(no);
            self.make_nested_request(key, task);
        }
    }

    pub(crate) fn plan_slot(&mut self, key: u64, no: u64) {
        let waits = |worker: &Worker| worker.nested.run == Some(no);
        if self.workers.get(&key).is_some_and(waits) {
            return;
        }
        let slot_task = self.slots(key).and_then(|slots| slots.find(no));
        let next = slot_task.and_then(|slot_task| slot_task.acts.front().map(|(after, _)| *after));
        if let Some(after) = next {
            self.agenda
                .plan(steady() + after, PlannedEvent::RunContinues(key, no));
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
                    worker.has_crashed = true;
                }
                self.dies(key, true);
            }
            Act::Crashes => self.program_dies(key, no),
            Act::Hangs => {
                if let Some(slots) = self.slots(key)
                    && let adapts = slots.is_adapter
                    && let Some(slot_task) = slots.find(no)
                {
                    let end = if adapts { Act::Crashes } else { Act::Dies };
                    slot_task.acts.push_back((HANG_TIME, end));
                }
            }
            Act::Calls => self.request_from_slot(key, no, task),
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
                self.end_slots_process(key);
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
            "progress" if !task.is_job => worker.send("PROGRESS", task.id, b""),
            "progress" => {
                worker.progress = self.ledger.jobs[task.no as usize].report_progress();
                worker.send("PROGRESS", task.id, b"");
            }
            "checkpoint" => {
                let job = &mut self.ledger.jobs[task.no as usize];
                worker.checkpoint_no = job.save_checkpoint();
                worker.send("CHECKPOINT", task.id, b"");
            }
            "ack" => {
                worker.send("ACK", task.id, b"");
                let slot_task = worker.slots.as_mut().and_then(|slots| slots.of_id(task.id));
                if let Some(slot_task) = slot_task {
                    slot_task.has_acked = true;
                }
                self.ledger.acknowledged(task.no, Ack::Sent);
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
        let Some(slot_task) = worker.slots.as_mut().and_then(|slots| slots.take(no)) else {
            return;
        };
        self.abandon_nested_request_of_slot(key, no);
        let setup = self.setup.clone();
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if let Answer::Retry(after) = answer {
            worker.retry_after = after;
        }
        let task = slot_task.task;
        worker.send(frame, task.id, &result(task.no, &setup));
        worker.ended.push((task, answer));
        worker.record_ended(task);
        self.check_run(&self.workers[&key], task);
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
        let (begun, back): (Vec<SlotTask>, Vec<SlotTask>) = slots
            .tasks
            .drain(..)
            .partition(|slot_task| slot_task.is_begun);
        slots.tasks = begun;
        worker.send("GOAWAY", 0, b"");
        self.ledger.had_leaving_workers = true;
        for SlotTask { task, .. } in back {
            match task.is_job {
                true => self.ledger.returned_by_leaving(task.no),
                false => self.ledger.calls.left_worker(task.no),
            }
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
        if slots.tasks.is_empty() && (slots.shutdown_requested || slots.has_left) {
            self.end_slots_process(key);
        }
    }

    /// The worker's process ends, whatever tasks it has.
    fn end_slots_process(&mut self, key: u64) {
        let Some(slots) = self.slots(key) else { return };
        if !std::mem::replace(&mut slots.is_ending, true) {
            slots
                .tasks
                .iter_mut()
                .for_each(|slot_task| slot_task.acts.clear());
            self.plan_death(key, false);
        }
    }
}
