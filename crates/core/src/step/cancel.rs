//! Cancels tasks.

use crate::task::Place;
use crate::{Action, Core, Outcome, Span, StopReason, TaskId, WorkerId};

impl Core {
    /// Cancels a task whose outcome is no longer wanted. A waiting task leaves its queue; a running one is
    /// cancelled if its worker supports that. With `kill`, a worker that continues regardless is killed.
    pub(crate) fn cancel(&mut self, task: TaskId, kill: bool) {
        let Some(place) = self.tasks.get(task).map(|task| task.place) else {
            return;
        };
        match place {
            Place::Lane | Place::Suspects => self.finish_waiting(task, Outcome::Cancelled),
            Place::Deferred => self.finish_deferred(task, Outcome::Cancelled),
            Place::Assigned(worker) if self.tasks[task].is_held_back() => {
                self.unassign_unsent(worker, task);
                self.finish(task, Outcome::Cancelled);
            }
            Place::Assigned(worker) if kill => self.stop_running(worker, task),
            Place::Assigned(worker) => {
                self.interrupt(worker, task);
                self.answer_early(task, Outcome::Cancelled);
            }
        }
    }

    /// Sends CANCEL and, if the task has begun, the soft signal to a worker that supports them, for a task
    /// whose outcome is no longer wanted. A worker that continues is not killed; only the task's time limit
    /// does that.
    pub(crate) fn interrupt(&mut self, worker: WorkerId, task: TaskId) {
        self.send_cancel(worker, task);
        if self.workers[worker].soft_cancel && self.tasks[task].begun {
            self.actions.push(Action::SoftSignal { worker });
        }
    }

    /// A worker that answers in parts learns that no further part is wanted, whether it supports CANCEL or not.
    fn send_cancel(&mut self, worker: WorkerId, task: TaskId) {
        if self.workers[worker].soft_cancel || self.tasks[task].answer_begun {
            self.actions.push(Action::CancelOn { worker, task });
        }
    }

    /// Ends an assigned task: with the soft signal if its worker supports that, otherwise by killing the
    /// worker. A prefetched task is stopped when its turn comes.
    pub(crate) fn stop_running(&mut self, worker: WorkerId, task: TaskId) {
        self.tasks[task].cancelled = true;
        if self.tasks[task].started.is_none() {
            self.send_cancel(worker, task);
            return;
        }
        if self.workers[worker].soft_cancel && self.tasks[task].signalled_at.is_none() {
            self.send_soft_signal(worker, task);
        } else {
            self.kill(worker, StopReason::Cancelled);
        }
    }

    /// Sends the soft signal for a running task; the kill follows after the grace period.
    pub(crate) fn send_soft_signal(&mut self, worker: WorkerId, task: TaskId) {
        self.tasks[task].signalled_at = Some(self.now);
        self.actions.push(Action::CancelOn { worker, task });
        self.actions.push(Action::SoftSignal { worker });
        self.set_worker_timer(worker);
    }

    /// Maximum duration of a task's current run: its own limit or its pool's.
    pub(crate) fn limit_of(&self, task: TaskId) -> Span {
        let task = &self.tasks[task];
        let Place::Assigned(worker) = task.place else {
            return Span::FOREVER;
        };
        let pool = self.workers[worker].pool;
        task.limit_of_run(self.pools[pool.index()].config.task_timeout)
    }
}
