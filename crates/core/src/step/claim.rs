//! Jobs that count as done on delivery: they are recorded first, then sent, and run at most once.

use crate::task::{Claim, Place};
use crate::worker::{Demand, Life};
use crate::{Action, Core, Outcome, TaskId, Time, WorkerId};

impl Core {
    /// Requests that the source record a job that is about to get a slot, if its queue acknowledges on
    /// delivery.
    pub(crate) fn claim(&mut self, task: TaskId) {
        let queue = &self.queues[self.tasks[task].queue.index()];
        let task_of = &mut self.tasks[task];
        if queue.config.ack_on_delivery && task_of.is_job() && task_of.claim == Claim::None {
            task_of.claim = Claim::Requested;
            self.actions.push(Action::Claim { task });
        }
    }

    /// Handles the confirmation that a job has been recorded. If the job has lost its worker meanwhile, the
    /// next worker gets it without another record.
    pub(crate) fn claimed(&mut self, task: TaskId) {
        let is_requested = |known: &&mut crate::task::Task| known.claim == Claim::Requested;
        let Some(known) = self.tasks.get_mut(task).filter(is_requested) else {
            return;
        };
        known.claim = Claim::Recorded;
        let Place::Assigned(worker) = known.place else {
            return;
        };
        if self.workers[worker].is_live() {
            // The run starts now: the time that recording took does not count against the job.
            known.started = Some(self.now);
            known.begun = self.workers[worker].slots == 1;
            self.deliver(worker, task);
            self.set_worker_timer(worker);
        }
    }

    /// Marks the one run of a recorded job as used when the job is sent, however the run ends, and as unused
    /// when the worker returns the job.
    pub(crate) fn set_run_used(&mut self, task: TaskId, used: bool) {
        let task = &mut self.tasks[task];
        if task.claim == Claim::Recorded {
            task.wanted = !used && !task.cancelled;
        }
    }

    /// Handles an unanswered task of a worker that leaves. By leaving, the worker states that it has not begun
    /// the task. For the task in its slot that may be wrong, so a job that may run only once is cancelled.
    pub(crate) fn on_left_unanswered(&mut self, worker: WorkerId, task: TaskId) {
        let was_there_since = self.workers[worker].hello_at;
        let first_returned_at = self.tasks[task].first_returned_at;
        let is_outdated = first_returned_at != Time::NEVER && was_there_since <= first_returned_at;
        match self.tasks[task].claim == Claim::Recorded && self.tasks[task].begun {
            true => self.finish(task, Outcome::Cancelled),
            false => self.on_returned(task, is_outdated),
        }
    }

    /// Takes back the tasks of a worker that have not been sent yet.
    pub(crate) fn unassign_all_unsent(&mut self, worker: WorkerId) {
        while let Some(task) = self.last_assigned(worker, crate::task::Task::is_held_back) {
            self.unassign(worker, task);
            self.requeue(task);
            self.note_idle(worker);
        }
    }

    /// Takes back one job that has not been sent yet. Its worker may get another one instead.
    pub(crate) fn unassign_unsent(&mut self, worker: WorkerId, task: TaskId) {
        self.unassign(worker, task);
        self.restore_request(worker);
        self.note_idle(worker);
        self.offer(worker);
    }

    /// A worker was not sent the task that it had requested, so its request stands.
    pub(crate) fn restore_request(&mut self, worker: WorkerId) {
        let worker = &mut self.workers[worker];
        if worker.demand.is_pull() {
            worker.demand = Demand::OnRequest;
        }
    }

    fn note_idle(&mut self, worker: WorkerId) {
        if self.workers[worker].is_live() && self.workers[worker].tasks.is_empty() {
            let idle_since = self.now;
            self.workers[worker].life = Life::Live { idle_since };
        }
        self.set_worker_timer(worker);
    }
}
