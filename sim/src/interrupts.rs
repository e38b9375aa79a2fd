//! Checks that the server interrupts or kills only workers whose own task was cancelled or took too long.

use crate::model::Task;
use crate::setup::{Pool, Setup};
use crate::slots::Slots;
use crate::worker::Worker;
use crate::world::World;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Type;

/// The maximum time until the server has read what a worker has answered.
pub(crate) const MAX_UNREAD_TIME: Duration = Duration::from_secs(1);
/// The inaccuracy of the time until an answer is read, where no peer reads late and nothing is written in part.
const READ_TIME_TOLERANCE: Duration = Duration::from_millis(1);
/// The maximum difference between the run times that the server and the worker measure: the server starts when it sends
/// the task, the worker when it reads it.
pub(crate) const RUN_START_TOLERANCE: Duration = Duration::from_millis(500);

impl Worker {
    /// A task of the worker has ended.
    pub(crate) fn record_ended(&mut self, task: Task) {
        let now = steady();
        self.just_ended
            .retain(|(_, at)| *at + MAX_UNREAD_TIME >= now);
        self.just_ended.push((task, now));
    }

    /// The tasks that the server may believe the worker runs. `unread` is the time that an answer may be unread.
    fn possible_tasks(&self, unread: Duration) -> impl Iterator<Item = Task> {
        let ended = self.just_ended.iter();
        let recent = ended.filter(move |(_, at)| *at + unread >= steady());
        let in_slots = self.slots.iter().flat_map(Slots::assigned_tasks);
        let running = self.run.as_ref().map(|run| run.task);
        let all = recent.map(|(task, _)| *task).chain(running);
        all.chain(in_slots)
    }

    /// Whether the worker has begun a task, and the server has sent it no other that might be meant.
    fn knows_its_tasks(&self) -> bool {
        match &self.slots {
            Some(slots) => !slots.tasks.is_empty() && !self.connection.is_readable(),
            None => self.run.is_some(),
        }
    }
}

impl World {
    /// How long the server may not have read what a worker has answered, or a signal may be on its way.
    fn max_unread_time(&self) -> Duration {
        match self.setup.read_delay {
            (0, quick) if !self.setup.short_io => {
                Duration::from_micros(2 * quick) + READ_TIME_TOLERANCE
            }
            _ => MAX_UNREAD_TIME,
        }
    }

    /// A signal that interrupts a task is on its way to this worker: one of its tasks must have been cancelled or be
    /// late.
    pub(crate) fn check_interrupt(&mut self, key: u64) {
        self.check_cancel_precedes(key);
        let unread = self.max_unread_time();
        let is_judged = |worker: &&Worker| !worker.is_rogue && worker.run.is_some();
        let Some(worker) = self.workers.get(&key).filter(is_judged) else {
            return;
        };
        let is_meant = worker
            .possible_tasks(unread)
            .any(|task| self.may_be_interrupted(task) || self.is_late(worker, task));
        assert!(
            is_meant,
            "{} was interrupted, but its task was neither cancelled nor late; left: {:?}",
            worker.name,
            worker.possible_tasks(unread).collect::<Vec<Task>>()
        );
    }

    /// The signal is there: if the server has said that it means the job which runs, and an operator has cancelled it, the
    /// job must not run again.
    pub(crate) fn note_stopped_job(&mut self, key: u64) {
        let Some(worker) = self.workers.get(&key) else {
            return;
        };
        let run = worker
            .run
            .as_ref()
            .filter(|run| run.task.is_job && !worker.is_rogue);
        let Some(task) = run.map(|run| run.task) else {
            return;
        };
        let is_told = worker.cancelled_ids.contains(&task.id);
        if is_told && !self.is_late(worker, task) {
            let job = &mut self.ledger.jobs[task.no as usize];
            job.is_being_stopped = job.cancel_requested && !job.acked;
        }
    }

    /// The frame that says which task is meant must be there before the signal.
    fn check_cancel_precedes(&mut self, key: u64) {
        let (unread, short_io) = (self.max_unread_time(), self.setup.short_io);
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let is_judged = worker.run.is_some() && worker.pull.is_none() && !worker.is_rogue;
        let mut told = worker.cancelled_ids.clone();
        let is_whole = worker.connection.peek(|frame| {
            if frame.kind == Type::Cancel {
                told.insert(frame.id);
            }
        });
        let is_told = worker
            .possible_tasks(unread)
            .any(|task| told.contains(&task.id));
        assert!(
            is_told || !is_judged || !is_whole || short_io,
            "{} was signalled before it was told which task is cancelled",
            worker.name
        );
    }

    /// Checks the log lines about workers that the server has killed: the reason in the line must be true.
    pub(crate) fn check_kills(&self, log: &[u8]) {
        let (log, unread) = (String::from_utf8_lossy(log), self.max_unread_time());
        for line in log.lines() {
            if let Some((head, _)) = line.split_once(" is replaced: max_tasks")
                && !self.log_stalls.is_late()
            {
                self.check_max_tasks(head);
            }
            let Some((head, reason)) = line.split_once(" is killed at ") else {
                continue;
            };
            // A worker of the server before may have the same name.
            let mut workers = self.workers_named(head).peekable();
            let is_gone = workers.peek().is_none();
            let is_meant = is_gone || workers.any(|worker| self.has_cause(worker, reason, unread));
            assert!(
                is_meant,
                "a worker was killed, but not for the logged reason; left: {line}"
            );
        }
    }

    /// Whether the reason for which a worker was killed, according to the log, may be true.
    fn has_cause(&self, worker: &Worker, reason: &str, unread: Duration) -> bool {
        // A worker that runs no task may have been sent one that it has not read.
        if !worker.knows_its_tasks() {
            return true;
        }
        let mut possible_tasks = worker.possible_tasks(unread);
        if reason.contains(": it used more memory") {
            self.is_far_too_large(worker)
        } else if reason.contains(": its task was cancelled") {
            possible_tasks.any(|task| task.is_job && self.may_be_stopped(task))
        } else if reason.contains(": its task exceeded its timeout") {
            possible_tasks.any(|task| self.is_late(worker, task))
        } else {
            true
        }
    }

    /// The log says that a worker is replaced because of `max_tasks`: it must not have had more tasks than that.
    fn check_max_tasks(&self, head: &str) {
        let mut workers = self.workers_named(head);
        let (Some(worker), None) = (workers.next(), workers.next()) else {
            return;
        };
        let pool = self.pools.get(&worker.key);
        let pool = pool.and_then(|pool| self.setup.pool(pool));
        if let Some(max) = pool.and_then(|pool| self.setup.max_tasks_of_worker(pool)) {
            let had = worker.answered;
            let name = &worker.name;
            assert!(
                had <= max,
                "{name} was replaced after {had} tasks, max_tasks is {max}"
            );
        }
    }

    /// The workers that a log line may name, except those that broke the protocol.
    fn workers_named(&self, head: &str) -> impl Iterator<Item = &Worker> {
        let name = head.rsplit(' ').next().unwrap_or_default().to_owned();
        let workers = self.workers.values();
        workers.filter(move |worker| worker.name == name && !worker.is_rogue)
    }

    /// Whether the server may interrupt this task, because it was cancelled, its client left, or its time is up.
    fn may_be_interrupted(&self, task: Task) -> bool {
        match task.is_job {
            true => self.may_be_stopped(task),
            false => self.ledger.calls.may_be_stopped(task.no),
        }
    }

    /// Whether the server may end the run of this job, because of an operator's change.
    pub(crate) fn may_be_stopped(&self, task: Task) -> bool {
        task.is_job && self.ledger.jobs[task.no as usize].may_be_stopped
    }

    /// Whether the task may have reached its time limit.
    pub(crate) fn is_late(&self, worker: &Worker, task: Task) -> bool {
        let limit = self.time_limit_of(worker, task);
        limit.is_none_or(|limit| self.max_run_time(worker, task) + RUN_START_TOLERANCE >= limit)
    }

    /// The longest time for which the server may have counted a task of this worker as running.
    pub(crate) fn max_run_time(&self, worker: &Worker, task: Task) -> Duration {
        let began = match task.is_job {
            true => self.ledger.jobs[task.no as usize].began_at,
            false => self.ledger.calls.limit_counts_since(task.no),
        };
        let link = worker.connection.link.as_ref();
        steady() - link.map_or(began, |link| link.sent_at(began))
    }

    /// The maximum time that a task may run at a worker; `None` if that is not known.
    pub(crate) fn time_limit_of(&self, worker: &Worker, task: Task) -> Option<Duration> {
        let own = match task.is_job {
            true => self.ledger.jobs[task.no as usize].options.timeout_ms,
            false => None,
        };
        match own {
            Some(ms) => Some(Duration::from_millis(u64::from(ms))),
            None => self.time_limit_of_pool(worker),
        }
    }

    fn time_limit_of_pool(&self, worker: &Worker) -> Option<Duration> {
        let pool = self.pools.get(&worker.key);
        let pool = pool.and_then(|pool| self.setup.pool(pool))?;
        let limit = self.setup.pools[pool].task_timeout_ms.known()?;
        Some(limit.map_or(Duration::MAX, Duration::from_millis))
    }

    /// A run ends: it must not have taken longer than it may.
    pub(crate) fn check_run(&self, worker: &Worker, task: Task) {
        self.check_size(worker);
        let Some(limit) = self.time_limit_of(worker, task) else {
            return;
        };
        let began_at = match task.is_job {
            true => self.ledger.jobs[task.no as usize].began_at,
            false => match self.ledger.calls.last_renewed_at(task.no) {
                Some(at) => at,
                None => return,
            },
        };
        let (took, max) = (
            steady() - began_at,
            limit.saturating_add(self.setup.max_grace()),
        );
        assert!(
            took <= max || worker.is_rogue,
            "{task:?} ran for {took:?}, its limit is {limit:?}"
        );
    }
}

impl Setup {
    /// The maximum time that a process needs to end after the server has requested it.
    fn max_grace(&self) -> Duration {
        let sections = self.pools.iter().flat_map(Pool::sections);
        let graces = sections.map(|section| {
            let grace = |key| section.millis(key, 20_000).unwrap_or(20_000);
            grace("kill_grace").max(grace("stop_grace"))
        });
        Duration::from_millis(graces.max().unwrap_or(20_000)) + 2 * MAX_UNREAD_TIME
    }
}
