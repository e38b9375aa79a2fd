//! Handles the end of a worker's process: what happens to its tasks and its place in the pool.

use crate::pool::UNHEALTHY_AFTER_FAILED_BOOTS;
use crate::worker::{Life, Worker};
use crate::{
    Action, Cause, Core, Exit, Notice, Origin, Outcome, Span, StopReason, TaskId, WorkerId,
};

/// Wait before the next boot after a first failed one; doubles with each further failure up to
/// [`BOOT_BACKOFF_MAX`].
const BOOT_BACKOFF: Span = Span::from_millis(200);
const BOOT_BACKOFF_MAX: Span = Span::from_secs(30);
/// A worker that was ready for this long counts as useful, even if it ran no task.
pub(super) const USEFUL_AFTER: Span = Span::from_secs(2);
/// Minimum time from the start of a process without the protocol that exits as planned (see
/// [`Core::is_planned`]) to the next boot of its pool.
const PLANNED_EXIT_INTERVAL: Span = Span::from_secs(1);

impl Core {
    /// Handles the end of a worker's process. Each of its tasks ends or is put back, depending on how far it
    /// got.
    pub(crate) fn exited(&mut self, id: WorkerId, exit: Exit) {
        let Some(worker) = self.workers.get(id) else {
            return;
        };
        let pool = worker.pool;
        self.boots.end(id);
        let crashed = self.settle_tasks(id, exit);
        let worker = self.workers.remove(id);
        self.pools[pool.index()]
            .workers
            .retain(|other| *other != id);
        self.pools[pool.index()].remove_idle(id);
        if !worker.spawned && self.pools[pool.index()].workers.is_empty() {
            self.unbind_guests_of_pool(pool);
        }
        self.report_exit(id, &worker, exit, crashed);
        self.actions.push(Action::Release { worker: id });
        self.request_resize_all();
    }

    /// Settles every task of a dead worker. Returns the task that the worker died on.
    fn settle_tasks(&mut self, id: WorkerId, exit: Exit) -> Option<TaskId> {
        while let Some(task) = self.last_assigned(id, |task| !task.begun) {
            self.unassign(id, task);
            self.requeue(task);
        }
        let forced = why_forced(&self.workers[id]);
        let signalled = self.why_signalled(id).filter(|_| forced.is_none());
        let forced = forced.or(signalled);
        let by_task = matches!(
            forced,
            None | Some(StopReason::Memory | StopReason::Misbehaved)
        );
        let first = self.workers[id].tasks.front().copied();
        if let Some(task) = first.filter(|_| by_task) {
            self.blame(id, task);
        }
        let crashed = first.filter(|_| by_task || signalled.is_some());
        while let Some(task) = self.workers[id].tasks.front().copied() {
            let overdue = forced == Some(StopReason::TaskTimeout) && self.is_overdue(task);
            let ran = self.unassign(id, task);
            self.queue_of(task).record_run(ran);
            self.tasks[task].ran = true;
            if by_task {
                self.crash(id, task, exit);
            } else if self.is_unwanted(task) {
                // An operator who cancelled the task expects this. For a job that already counts as done, the
                // notice is the only report that it was cut off.
                if self.tasks[task].is_job() && !self.tasks[task].cancelled {
                    self.note_cut_off(id, task, forced, false);
                }
                self.finish(task, Outcome::Cancelled);
            } else if overdue {
                self.timed_out(task);
            } else {
                let again = self.tasks[task].may_run_again();
                self.note_cut_off(id, task, forced, again);
                self.end_unblamed(task, exit);
            }
        }
        crashed
    }

    /// Why the running tasks of a worker that died were told to end by the soft signal, if all of them were. Code that does
    /// not handle the signal dies of it.
    fn why_signalled(&self, id: WorkerId) -> Option<StopReason> {
        let tasks = &self.workers[id].tasks;
        let mut signalled = tasks.iter().map(|task| self.tasks[*task].signalled_at);
        if tasks.is_empty() || signalled.any(|at| at.is_none()) {
            return None;
        }
        Some(match tasks.iter().all(|task| self.is_unwanted(*task)) {
            true => StopReason::Cancelled,
            false => StopReason::TaskTimeout,
        })
    }

    fn note_cut_off(
        &mut self,
        worker: WorkerId,
        task: TaskId,
        why: Option<StopReason>,
        again: bool,
    ) {
        self.actions.push(Action::Notice(Notice::CutOff {
            worker,
            task,
            why,
            again,
        }));
    }

    /// Counts a death against the worker's version. A death counts once, however many tasks ran on the worker.
    pub(crate) fn blame(&mut self, id: WorkerId, task: TaskId) {
        let (pool, version) = (self.workers[id].pool, self.workers[id].version);
        let (before, mut blamed) = (self.tasks[task].crashes > 0, false);
        self.note_health(pool, |pool, now| {
            blamed = pool.blame(now, task, before, version);
        });
        // Deaths of the old version do not count against the new one, which may be the fix.
        if blamed && version == self.pools[pool.index()].version {
            self.give_up_reload(pool);
        }
    }

    /// Handles a task on which a worker died. It runs again, alone, while its crash budget lasts.
    pub(crate) fn crash(&mut self, worker: WorkerId, task: TaskId, exit: Exit) {
        let now = self.now;
        let budget = self.pool_of(worker).budget(now);
        self.tasks[task].crashes = self.tasks[task].crashes.saturating_add(1);
        let crashes = self.tasks[task].crashes;
        if self.is_unwanted(task) {
            self.finish(task, Outcome::Cancelled);
        } else if !self.tasks[task].may_run_again() {
            self.finish(task, Outcome::WorkerDied(exit));
        } else if crashes >= budget {
            self.finish(task, Outcome::Quarantined { crashes, exit });
        } else {
            self.actions.push(Action::Notice(Notice::Crashed {
                worker,
                exit,
                task,
                crashes,
            }));
            let queue = self.tasks[task].queue;
            self.queues[queue.index()].push_back(&mut self.tasks, task);
            self.activate(queue);
        }
    }

    /// Whether a task's outcome was reported already, or decided by an operator.
    pub(crate) fn is_unwanted(&self, task: TaskId) -> bool {
        self.tasks[task].cancelled || !self.tasks[task].wanted
    }

    /// Handles a task that exceeded its time limit, which counts as an attempt.
    pub(crate) fn timed_out(&mut self, task: TaskId) {
        let Origin::Job { tries } = self.tasks[task].origin else {
            self.finish(task, Outcome::TimedOut);
            return;
        };
        self.tasks[task].attempt = self.tasks[task].attempt.saturating_add(1);
        if self.has_used_all_tries(task, tries) {
            self.finish(task, Outcome::TimedOut);
        } else {
            self.retry(task, None, Cause::TimedOut);
        }
    }

    /// Puts back or ends a task whose worker was killed for another reason: the task is not to blame.
    fn end_unblamed(&mut self, task: TaskId, exit: Exit) {
        if self.tasks[task].may_run_again() {
            self.requeue(task);
        } else {
            self.finish(task, Outcome::WorkerDied(exit));
        }
    }

    pub(crate) fn is_overdue(&self, task: TaskId) -> bool {
        let limit = self.limit_of(task);
        self.tasks[task]
            .started
            .is_some_and(|started| self.now.since(started) >= limit)
    }

    fn report_exit(&mut self, id: WorkerId, worker: &Worker, exit: Exit, crashed: Option<TaskId>) {
        let why = match worker.life {
            Life::Starting { .. } | Life::Live { .. } => None,
            Life::Draining { why } | Life::Stopping { why, .. } | Life::Killed { why } => Some(why),
        };
        let is_current =
            worker.spawned && worker.version == self.pools[worker.pool.index()].version;
        // A worker that was ready for a while is not a failed boot, even if it had no task or its tasks are
        // invisible to the core. Its lifetime alone limits how often it is restarted.
        let lived = self.now.since(worker.hello_at) >= USEFUL_AFTER;
        let planned = self.is_planned(worker, exit);
        if planned {
            let pool = &mut self.pools[worker.pool.index()];
            pool.next_boot = pool.next_boot.max(worker.hello_at + PLANNED_EXIT_INTERVAL);
        }
        self.note_version(worker);
        let left_during_task = worker.left_during_task && self.is_proven(worker);
        if left_during_task {
            // A worker of a version that works left in the middle of a task. The task caused that, and the
            // limit on returns bounds it. Each return may cost a process, so the next boot is delayed.
            let pool = &mut self.pools[worker.pool.index()];
            pool.next_boot = pool.next_boot.max(self.now + BOOT_BACKOFF);
        }
        let was_of_use = worker.done > 0
            || lived
            || planned
            || crashed.is_some()
            || !is_current
            || left_during_task;
        let by_itself = matches!(
            why,
            None | Some(StopReason::BootTimeout | StopReason::Misbehaved | StopReason::Left)
        );
        if by_itself && !was_of_use {
            return self.boot_failed(id, worker, exit);
        }
        let was_stopped = matches!(
            why,
            Some(
                StopReason::Shutdown
                    | StopReason::Surplus
                    | StopReason::Replaced
                    | StopReason::Left
                    | StopReason::TaskLimit
            )
        );
        let expected = crashed.is_none() && (planned || was_stopped);
        let quiet = expected && worker.is_short_lived() && exit == Exit::Code(0);
        self.actions.push(Action::Notice(Notice::Died {
            worker: id,
            exit,
            expected,
            quiet,
            why,
            crashed,
        }));
    }

    /// Records that a version works, when a worker of it that ran at least one task has ended.
    fn note_version(&mut self, worker: &Worker) {
        if worker.done > 0 {
            self.pools[worker.pool.index()].proven_version = Some(worker.version);
        }
    }

    /// Whether a worker of the same version has run at least one task.
    fn is_proven(&self, worker: &Worker) -> bool {
        let pool = &self.pools[worker.pool.index()];
        let mut others = pool.workers.iter().map(|id| &self.workers[*id]);
        let has_run = |other: &Worker| other.version == worker.version && other.done > 0;
        pool.proven_version == Some(worker.version) || others.any(has_run)
    }

    /// Whether a process without the protocol exited because it had finished its work: `queue:work` exits with
    /// code 0 after its maximum number of jobs and with code 12 above its memory limit.
    fn is_planned(&self, worker: &Worker, exit: Exit) -> bool {
        let silent = !self.pools[worker.pool.index()].config.protocol;
        let hello_at = worker.hello_at <= self.now;
        silent && hello_at && matches!(exit, Exit::Code(0 | 12))
    }

    /// Handles a worker that died before it was useful. The wait before the next boot grows with each
    /// failure.
    fn boot_failed(&mut self, id: WorkerId, worker: &Worker, exit: Exit) {
        let pool = &self.pools[worker.pool.index()];
        // Workers that were ready at the same time and die together count as one failed boot.
        let together = worker
            .failed_boots_at_hello
            .map(|before| pool.failed_boots.max(before + 1));
        let failed = together.unwrap_or(pool.failed_boots + 1);
        let gives_up = pool.fallback.is_some() && failed >= UNHEALTHY_AFTER_FAILED_BOOTS;
        let again_in = match gives_up {
            true => Span::ZERO,
            false => boot_backoff(failed, self.rng.below(1 << 40)),
        };
        self.actions.push(Action::Notice(Notice::BootFailed {
            worker: id,
            exit,
            again_in,
        }));
        if gives_up {
            self.give_up_reload(worker.pool);
            return;
        }
        self.note_health(worker.pool, |pool, now| {
            pool.failed_boots = failed;
            pool.next_boot = pool.next_boot.max(now + again_in);
        });
    }
}

/// Why a worker was terminated or killed, or `None` if it was not. A worker that died by itself while it drained was
/// not killed.
fn why_forced(worker: &Worker) -> Option<StopReason> {
    match worker.life {
        Life::Killed { why } => Some(why),
        Life::Draining { why } | Life::Stopping { why, .. } if worker.term_sent => Some(why),
        Life::Live { .. } if worker.term_sent => Some(StopReason::Shutdown),
        _ => None,
    }
}

fn boot_backoff(failed: u32, jitter: u64) -> Span {
    let doubled = BOOT_BACKOFF.0 << (failed - 1).min(20);
    let full = doubled.min(BOOT_BACKOFF_MAX.0);
    // Between half of the full wait and all of it: long enough not to spin, and spread so that boots do not
    // coincide.
    Span(full / 2 + jitter % (full / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_backoff_doubles_up_to_a_maximum() {
        for (failed, full) in [(1, 200), (2, 400), (5, 3_200), (9, 30_000), (40, 30_000)] {
            for jitter in [0, 1, 77_777, (1 << 20) - 1] {
                let wait = boot_backoff(failed, jitter);
                assert!(wait >= Span::from_millis(full / 2) && wait <= Span::from_millis(full));
            }
        }
    }
}
