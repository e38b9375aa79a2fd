//! Jobs that count as done on delivery: recorded first, sent then, and run once at the most.

use crate::task::{Claim, Place};
use crate::worker::Life;
use crate::{Action, Core, Outcome, TaskId, WorkerId};

impl Core {
    /// Has the source record a job that is about to get a slot, if its queue acknowledges on
    /// delivery.
    pub(crate) fn claim(&mut self, task: TaskId) {
        let queue = &self.queues[self.tasks[task].queue.index()];
        let task_of = &mut self.tasks[task];
        if queue.config.ack_on_delivery && task_of.is_job() && task_of.claim == Claim::None {
            task_of.claim = Claim::Requested;
            self.out.push(Action::Claim { task });
        }
    }

    /// A job is recorded. If it has lost its worker meanwhile, the next one gets it at once.
    pub(crate) fn claimed(&mut self, task: TaskId) {
        let is_requested = |known: &&mut crate::task::Task| known.claim == Claim::Requested;
        let Some(known) = self.tasks.get_mut(task).filter(is_requested) else {
            return;
        };
        known.claim = Claim::Recorded;
        let Place::Out(worker) = known.place else {
            return;
        };
        if self.workers[worker].is_live() {
            // Its clock starts now: it was not the job that took so long.
            known.started = Some(self.now);
            known.reached = self.workers[worker].slots == 1;
            self.deliver(worker, task);
            self.set_worker_timer(worker);
        }
    }

    /// A job that is recorded has its one run with whoever gets it, dead or alive, unless that worker returns it.
    pub(crate) fn use_up(&mut self, task: TaskId, used: bool) {
        let task = &mut self.tasks[task];
        if task.claim == Claim::Recorded {
            task.wanted = !used && !task.cancelled;
        }
    }

    /// A worker leaves with this task unanswered, and says thereby that it did not begin it. That may be wrong of
    /// the one that it had to run, so a job that may run only once is not risked.
    pub(crate) fn on_left_unanswered(&mut self, task: TaskId) {
        match self.tasks[task].claim == Claim::Recorded && self.tasks[task].reached {
            true => self.finish(task, Outcome::Cancelled),
            false => self.on_returned(task),
        }
    }

    /// Takes back from a worker what was not sent to it yet.
    pub(crate) fn recall(&mut self, worker: WorkerId) {
        while let Some(task) = self.last_assigned(worker, crate::task::Task::is_held_back) {
            self.take_back(worker, task);
            self.requeue(task);
            self.note_idle(worker);
        }
    }

    /// Takes one job back that was not sent yet. Its worker may have another one instead.
    pub(crate) fn take_unsent(&mut self, worker: WorkerId, task: TaskId) {
        self.take_back(worker, task);
        self.note_idle(worker);
        self.offer(worker);
    }

    fn note_idle(&mut self, worker: WorkerId) {
        if self.workers[worker].is_live() && self.workers[worker].tasks.is_empty() {
            let idle_since = self.now;
            self.workers[worker].life = Life::Live { idle_since };
        }
        self.set_worker_timer(worker);
    }
}
