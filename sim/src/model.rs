//! A worker that follows the table `sdk/conformance/worker.json`: it takes events and returns their effects.

use crate::table::{Becomes, Flags, PULLS, RUNS, Table, flag};
use std::collections::VecDeque;

/// A task that a worker has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) id: u32,
    /// The number of the job, or of the call.
    pub(crate) no: u64,
    pub(crate) is_job: bool,
    is_cancelled: bool,
    /// The worker may answer in parts, and may send this many bytes for the beginning.
    pub(crate) credit: Option<u32>,
}

impl Task {
    pub(crate) fn new(id: u32, no: u64, is_job: bool) -> Self {
        Self {
            id,
            no,
            is_job,
            is_cancelled: false,
            credit: None,
        }
    }

    /// The mark that the task's run writes, which distinguishes its output from the output of other runs.
    pub(crate) fn mark(&self) -> String {
        let what = if self.is_job { "wrote" } else { "called" };
        format!("{what}-{}", self.no)
    }
}

/// An effect of an event.
#[derive(Debug)]
pub(crate) enum WorkerEffect {
    /// The worker sends a frame, named as in the table, about the task with this id.
    Sends(&'static str, u32),
    Begins(Task),
    /// A task that ran has ended.
    Ends(Task),
    /// The worker has answered a task that it never began.
    Drops(Task),
    /// The worker exits and returns the tasks that it had.
    Leaves,
}

/// The state of a worker that follows the table.
pub(crate) struct Model {
    table: &'static Table,
    pub(crate) state: &'static str,
    flags: Flags,
    waiting: VecDeque<Task>,
    pub(crate) running: Option<Task>,
    unconfirmed: i32,
    /// The number of tasks that the worker still takes in its life, if that is limited.
    pub(crate) tasks_left: Option<u64>,
    /// The task has printed text without a line end, which is kept back.
    has_partial_line: bool,
}

impl Model {
    /// A worker that was spawned, and whose SDK runs the loop.
    pub(crate) fn loop_worker() -> Self {
        Self {
            table: &RUNS,
            state: "idle",
            flags: 0,
            waiting: VecDeque::new(),
            running: None,
            unconfirmed: 0,
            tasks_left: None,
            has_partial_line: false,
        }
    }

    /// A worker that takes tasks on request.
    pub(crate) fn pull_worker() -> Self {
        Self {
            table: &PULLS,
            state: "away",
            ..Self::loop_worker()
        }
    }

    /// The worker was not spawned: it connected by itself.
    pub(crate) fn set_connected(&mut self) {
        self.flags |= flag("connected");
    }

    /// Whether the worker waits for what the server sends.
    pub(crate) fn reads(&self) -> bool {
        matches!(self.state, "idle" | "acks" | "rests" | "asks" | "withdraws")
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.flags & flag(name) != 0
    }

    /// Whether the worker could begin a task at once.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.state, "idle" | "asks") && self.waiting.is_empty() && !self.has("told")
    }

    /// The numbers of the jobs that the worker has and has not begun.
    pub(crate) fn waiting_jobs(&self) -> impl Iterator<Item = u64> {
        let jobs = self.waiting.iter().filter(|task| task.is_job);
        jobs.map(|task| task.no)
    }

    /// The numbers of the calls that the worker has and has not begun.
    pub(crate) fn waiting_calls(&self) -> impl Iterator<Item = u64> {
        let calls = self.waiting.iter().filter(|task| !task.is_job);
        calls.map(|task| task.no)
    }

    pub(crate) fn next_waiting(&self) -> Option<Task> {
        self.waiting.front().copied()
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    /// The worker has read a task, which waits for its turn.
    pub(crate) fn add_task(&mut self, task: Task, all: &mut Vec<WorkerEffect>) {
        self.waiting.push_back(task);
        self.apply("REQ", None, all);
    }

    pub(crate) fn cancel(&mut self, id: u32, all: &mut Vec<WorkerEffect>) {
        let waiting = self.waiting.iter().find(|task| task.id == id);
        let event = match (&self.running, waiting) {
            (Some(task), _) if task.id == id => "CANCEL of runs",
            (_, Some(task)) if task.is_cancelled => "CANCEL of cancelled",
            (_, Some(_)) => "CANCEL of waits",
            (_, None) => "CANCEL of over",
        };
        self.apply(event, Some(id), all);
    }

    pub(crate) fn acknowledge(&mut self, id: u32, all: &mut Vec<WorkerEffect>) {
        let is_own = self.running.is_some_and(|task| task.id == id);
        assert!(
            !is_own || self.state == "acks",
            "an acknowledgement was confirmed that the task had not sent: {:?}",
            self.running
        );
        self.apply(
            if is_own { "ACK of runs" } else { "ACK of over" },
            None,
            all,
        );
    }

    /// Applies any other event, and all steps that follow until the worker waits for the next event.
    pub(crate) fn on(&mut self, event: &'static str, all: &mut Vec<WorkerEffect>) {
        self.apply(event, None, all);
        while matches!(self.state, "begins" | "looks" | "settled") {
            let first = match self.waiting.front() {
                None => "none",
                Some(task) if task.is_cancelled => "cancelled",
                Some(_) => "served",
            };
            self.apply(first, None, all);
        }
    }

    /// Applies the row of the table for this event. `id` is the task that is cancelled.
    fn apply(&mut self, event: &'static str, id: Option<u32>, all: &mut Vec<WorkerEffect>) {
        let confirmed = match self.unconfirmed {
            0 => flag("confirmed"),
            _ => 0,
        };
        let mut row = self.table.find(self.state, event, self.flags | confirmed);
        if let (Becomes::Over, Some(tasks_left)) = (row.task, &mut self.tasks_left) {
            *tasks_left -= 1;
            if *tasks_left == 0 {
                self.flags |= flag("stops");
                row = self.table.find(self.state, event, self.flags | confirmed);
            }
        }
        self.has_partial_line |= event == "prints half a line";
        let is_beginning = matches!(self.state, "begins" | "looks" | "settled");
        let about = match is_beginning {
            true => self.waiting.front(),
            false => self.running.as_ref(),
        };
        let about = about.map_or(0, |task| task.id);
        for frame in &row.sends {
            match *frame {
                "LOG?" if self.has_partial_line => all.push(WorkerEffect::Sends("LOG", about)),
                "LOG?" => {}
                other => all.push(WorkerEffect::Sends(other, about)),
            }
            self.has_partial_line &= !frame.starts_with("LOG");
        }
        self.flags = self.flags & !row.clears | row.sets;
        self.unconfirmed = (self.unconfirmed + row.confirms).max(0);
        match row.task {
            Becomes::Same | Becomes::Waits => {}
            Becomes::Cancelled => {
                let all = self.waiting.iter_mut();
                all.filter(|task| Some(task.id) == id)
                    .for_each(|task| task.is_cancelled = true);
            }
            Becomes::Runs => {
                self.running = self.waiting.pop_front();
                all.extend(self.running.map(WorkerEffect::Begins));
            }
            Becomes::Over if is_beginning => {
                all.extend(self.waiting.pop_front().map(WorkerEffect::Drops));
            }
            Becomes::Over => all.extend(self.running.take().map(WorkerEffect::Ends)),
        }
        if let Some(next) = row.next {
            self.state = next;
            if next == "gone" {
                all.push(WorkerEffect::Leaves);
            }
        }
    }
}
