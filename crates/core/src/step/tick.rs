//! Handles what is due: deadlines, timeouts, memory measurements, recycling and the end of grace periods.

use crate::task::Place;
use crate::worker::{Life, Worker, escalation, term_to_kill};
use crate::{Action, Core, Outcome, PoolId, Recycled, Span, StopReason, TaskId, Time, WorkerId};

/// How often the memory of a busy worker is measured during one task.
const MEASURE_RUNNING_INTERVAL: Span = Span::from_millis(250);
/// How often the memory of a process without the protocol is measured.
const MEASURE_NO_PROTOCOL_INTERVAL: Span = Span::from_secs(2);

/// Minimum time between two memory measurements after tasks: one measurement costs as much as a short task.
pub(super) const MIN_MEASURE_INTERVAL: Span = Span::from_millis(100);

impl Core {
    /// Handles everything that is due.
    pub(crate) fn tick(&mut self) {
        while let Some(task) = self.task_timers.pop_due(self.now) {
            self.task_due(TaskId(task));
        }
        while let Some(slot) = self.worker_timers.pop_due(self.now) {
            if let Some(worker) = self.workers.in_slot(slot) {
                self.worker_due(worker);
            }
        }
        while let Some(pool) = self.pool_timers.pop_due(self.now) {
            // The blame on a version expires with time, without any other event.
            self.note_health(PoolId(pool), |_, _| ());
            self.request_resize(PoolId(pool));
        }
    }

    /// Handles a due task timer, which may have been set for an earlier task with the same number.
    fn task_due(&mut self, id: TaskId) {
        match self.tasks.get(id) {
            Some(task) if task.wanted && task.deadline <= self.now => self.on_deadline(id),
            Some(task) if task.wanted => self.task_timers.wake(id.0, task.deadline),
            _ => {}
        }
    }

    /// Handles a task whose deadline has passed. A worker that still has the task may finish it, but its answer
    /// is no longer wanted.
    fn on_deadline(&mut self, task: TaskId) {
        match self.tasks[task].place {
            Place::Lane | Place::Suspects => {
                let ran = self.tasks[task].ran;
                self.finish_waiting(task, Outcome::Deadline { ran });
            }
            Place::Deferred => {
                let ran = self.tasks[task].ran;
                self.finish_deferred(task, Outcome::Deadline { ran });
            }
            Place::Assigned(worker) if self.tasks[task].is_held_back() => {
                self.unassign_unsent(worker, task);
                self.finish(task, Outcome::Deadline { ran: false });
            }
            Place::Assigned(worker) => {
                let ran = self.tasks[task].ran || self.tasks[task].begun;
                self.interrupt(worker, task);
                self.answer_early(task, Outcome::Deadline { ran });
            }
        }
    }

    /// Handles what is due for a worker: boot timeout, task timeout, age, idle timeout or grace period.
    fn worker_due(&mut self, id: WorkerId) {
        match self.workers[id].life {
            Life::Starting { until } if until <= self.now => self.kill(id, StopReason::BootTimeout),
            Life::Starting { .. } | Life::Killed { .. } => {}
            Life::Live { idle_since } => self.live_due(id, idle_since),
            Life::Draining { .. } => {
                self.watch_memory(id);
                self.check_tasks(id);
                self.escalate(id);
            }
            Life::Stopping { .. } => self.escalate(id),
        }
        if self.workers.get(id).is_some() {
            self.set_worker_timer(id);
        }
    }

    fn live_due(&mut self, id: WorkerId, idle_since: Time) {
        let worker = &self.workers[id];
        if worker.tasks.is_empty() && self.idle_until(worker, idle_since) <= self.now {
            self.request_resize(worker.pool);
        }
        if self.workers[id].expires <= self.now && !self.workers[id].outdated {
            self.recycle(id, Recycled::Age);
        }
        self.check_proven(id);
        self.watch_memory(id);
        self.check_tasks(id);
        if self.draining.is_some() {
            self.escalate(id);
        }
    }

    /// Resets the failed boots of a pool, once a process without the protocol has lived for a while. A process
    /// of an older version does not count.
    fn check_proven(&mut self, id: WorkerId) {
        if self.workers[id].proven_at > self.now {
            return;
        }
        let worker = &mut self.workers[id];
        worker.proven_at = Time::NEVER;
        let (pool, version) = (worker.pool, worker.version);
        if version == self.pools[pool.index()].version {
            self.note_health(pool, |pool, _| pool.failed_boots = 0);
        }
    }

    fn watch_memory(&mut self, id: WorkerId) {
        if self.watch_deadline(&self.workers[id]) > self.now {
            return;
        }
        let is_silent = !self.pool_of(id).config.protocol;
        let pause = match (is_silent, self.workers[id].tasks.is_empty()) {
            (true, _) => MEASURE_NO_PROTOCOL_INTERVAL,
            (false, false) => MEASURE_RUNNING_INTERVAL,
            (false, true) => MIN_MEASURE_INTERVAL,
        };
        self.measure(id, pause);
    }

    /// Requests a measurement of a worker's memory, and no further one before `pause` is over.
    pub(super) fn measure(&mut self, id: WorkerId, pause: Span) {
        let worker = &mut self.workers[id];
        worker.measure_at = self.now + pause;
        worker.unmeasured = false;
        self.actions.push(Action::Measure { worker: id });
    }

    /// Ends tasks that ran too long: with the soft signal if the worker supports it, then by killing the
    /// worker.
    fn check_tasks(&mut self, id: WorkerId) {
        while let Some(task) = self.overdue_task(id) {
            let is_signalled = self.tasks[task].signalled_at.is_some();
            if self.workers[id].soft_cancel && !is_signalled {
                self.send_soft_signal(id, task);
                continue;
            }
            let why = if self.is_overdue(task) {
                StopReason::TaskTimeout
            } else {
                StopReason::Cancelled
            };
            return self.kill(id, why);
        }
    }

    /// Ends a worker that has not exited after GOAWAY: sends TERM late in its grace period and kills it at the
    /// end.
    pub(super) fn escalate(&mut self, id: WorkerId) {
        let Some((term_at, kill_at)) = self.escalation_of(&self.workers[id]) else {
            return;
        };
        if kill_at <= self.now {
            let why = match self.workers[id].life {
                Life::Draining { why } | Life::Stopping { why, .. } => why,
                _ => StopReason::Shutdown,
            };
            self.kill(id, why);
        } else if term_at <= self.now && !self.workers[id].term_sent {
            self.workers[id].term_sent = true;
            if !self.is_idle_guest(id) {
                self.actions.push(Action::Terminate { worker: id });
            }
        }
    }

    fn escalation_of(&self, worker: &Worker) -> Option<(Time, Time)> {
        let since = match worker.life {
            // A worker that is being replaced may finish its task; only a shutdown limits the time for that.
            Life::Live { .. } | Life::Draining { .. } => self.draining,
            Life::Stopping { since, .. } => Some(self.draining.map_or(since, |at| at.min(since))),
            _ => None,
        };
        let since = since?;
        let grace = self.pools[worker.pool.index()].config.stop_grace;
        let (term_at, kill_at) = escalation(since, grace);
        Some(match worker.grace_cut_at {
            Some(at) => (term_at.min(at), kill_at.min(at + term_to_kill(grace))),
            None => (term_at, kill_at),
        })
    }

    /// Sets the only timer of a worker to whatever is due first.
    pub(crate) fn set_worker_timer(&mut self, id: WorkerId) {
        self.worker_timers.wake(id.slot, self.worker_deadline(id));
    }

    pub(crate) fn worker_deadline(&self, id: WorkerId) -> Time {
        let worker = &self.workers[id];
        match worker.life {
            Life::Starting { until } => until,
            Life::Killed { .. } => Time::NEVER,
            Life::Live { idle_since } => self
                .live_deadline(worker, idle_since)
                .min(self.next_escalation(worker)),
            Life::Draining { .. } => self
                .task_deadline(worker)
                .min(self.watch_deadline(worker))
                .min(self.next_escalation(worker)),
            Life::Stopping { .. } => self.next_escalation(worker),
        }
    }

    fn live_deadline(&self, worker: &Worker, idle_since: Time) -> Time {
        let expires = if worker.outdated {
            Time::NEVER
        } else {
            worker.expires
        };
        if worker.tasks.is_empty() {
            // After the idle timeout no timer is needed: any change that makes the worker surplus resizes its
            // pool anyway.
            let idle_until = self.idle_until(worker, idle_since);
            let is_up = idle_until <= self.now;
            let idle_until = if is_up { Time::NEVER } else { idle_until };
            return expires
                .min(idle_until)
                .min(self.watch_deadline(worker))
                .min(worker.proven_at);
        }
        expires
            .min(self.watch_deadline(worker))
            .min(self.task_deadline(worker))
    }

    /// When a worker's memory is measured next.
    fn watch_deadline(&self, worker: &Worker) -> Time {
        let config = &self.pools[worker.pool.index()].config;
        if config.memory_limit == 0 {
            return Time::NEVER;
        }
        // A busy worker is measured after its task anyway.
        let is_left = worker.unmeasured && worker.tasks.is_empty();
        if !config.protocol || is_left {
            return worker.measure_at;
        }
        let first = worker.tasks.front();
        match first.and_then(|task| self.tasks[*task].started) {
            Some(started) => worker.measure_at.max(started + MEASURE_RUNNING_INTERVAL),
            None => Time::NEVER,
        }
    }

    fn overdue_task(&self, id: WorkerId) -> Option<TaskId> {
        let worker = &self.workers[id];
        let mut tasks_in_slots = tasks_in_slots(worker);
        tasks_in_slots.find(|task| self.task_end(worker, *task) <= self.now)
    }

    fn task_deadline(&self, worker: &Worker) -> Time {
        let ends = tasks_in_slots(worker).map(|task| self.task_end(worker, task));
        ends.min().unwrap_or(Time::NEVER)
    }

    /// When a task must be interrupted: by the soft signal or, if that was sent already, by killing the worker.
    fn task_end(&self, worker: &Worker, task: TaskId) -> Time {
        if worker.reading_paused_since.is_some() {
            return Time::NEVER;
        }
        let config = &self.pools[worker.pool.index()].config;
        let task = &self.tasks[task];
        match (task.signalled_at, task.started) {
            (Some(signalled_at), _) => signalled_at + config.kill_grace,
            (None, Some(started)) if !task.is_held_back() => {
                started + task.limit_of_run(config.task_timeout)
            }
            (None, _) => Time::NEVER,
        }
    }

    fn next_escalation(&self, worker: &Worker) -> Time {
        match self.escalation_of(worker) {
            None => Time::NEVER,
            Some((term_at, _)) if !worker.term_sent => term_at,
            Some((_, kill_at)) => kill_at,
        }
    }
}

fn tasks_in_slots(worker: &Worker) -> impl Iterator<Item = TaskId> {
    let slots = usize::from(worker.slots);
    worker.tasks.iter().take(slots).copied()
}
