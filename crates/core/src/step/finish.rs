//! A task ends, or goes back to its queue or store for another run.

use crate::task::Place;
use crate::{Action, Cause, Core, Facts, Outcome, Span, TaskId};

impl Core {
    /// Ends a task that is no longer in a lane or assigned. Reports its outcome, unless that was reported
    /// earlier.
    pub(crate) fn finish(&mut self, id: TaskId, outcome: Outcome) {
        let facts = self.facts(id);
        let wanted = self.tasks[id].wanted;
        self.forget(id);
        self.actions.push(match wanted {
            true => Action::Finish {
                task: id,
                outcome,
                facts,
            },
            false => Action::Drop { task: id },
        });
    }

    /// Ends a waiting task.
    pub(crate) fn finish_waiting(&mut self, id: TaskId, outcome: Outcome) {
        self.withdraw(id);
        self.finish(id, outcome);
    }

    /// Reports a task's outcome to its source while a worker still has the task.
    pub(crate) fn answer_early(&mut self, id: TaskId, outcome: Outcome) {
        let facts = self.facts(id);
        if std::mem::replace(&mut self.tasks[id].wanted, false) {
            self.release_caller(id);
            self.actions.push(Action::Answer {
                task: id,
                outcome,
                facts,
            });
        }
    }

    /// Returns a job to its store for another run.
    pub(crate) fn retry(&mut self, id: TaskId, after: Option<Span>, cause: Cause) {
        let facts = self.facts(id);
        self.block_key_of(id);
        self.forget(id);
        self.actions.push(Action::Retry {
            task: id,
            after,
            cause,
            facts,
        });
    }

    /// Puts an assigned task back into its queue, at its old position or, if it ran, before all others. A task
    /// whose outcome is no longer wanted ends instead.
    pub(crate) fn requeue(&mut self, id: TaskId) {
        if self.is_unwanted(id) {
            self.finish(id, Outcome::Cancelled);
            return;
        }
        let task = &mut self.tasks[id];
        if task.ran {
            task.order = 0;
        }
        let queue = task.queue;
        self.queues[queue.index()].push_front(&mut self.tasks, id);
        self.activate(queue);
    }

    pub(crate) fn forget(&mut self, id: TaskId) {
        self.release_caller(id);
        let task = self.tasks.remove(id);
        if self.queues[task.queue.index()].retire(task.key) {
            self.request_keys(task.queue);
        }
    }

    /// Records that the worker that made this call no longer waits for it.
    fn release_caller(&mut self, id: TaskId) {
        let parent = self.tasks[id].parent.take();
        if let Some(parent) = parent.and_then(|parent| self.workers.get_mut(parent)) {
            parent.calls_to_own_pool -= 1;
            // The worker may now be cleared for a suspect, which can be in another queue than the call.
            let pool = parent.pool;
            self.touch(pool);
        }
    }

    pub(crate) fn facts(&self, id: TaskId) -> Facts {
        let task = &self.tasks[id];
        let worker = match task.place {
            Place::Assigned(worker) => Some(worker),
            Place::Lane | Place::Suspects | Place::Deferred => None,
        };
        Facts {
            waited: task.started.unwrap_or(self.now).since(task.arrived),
            ran: task
                .started
                .map_or(Span::ZERO, |started| self.now.since(started)),
            has_run: task.ran || task.started.is_some(),
            worker,
            attempt: task.attempt,
            crashes: task.crashes,
        }
    }
}
