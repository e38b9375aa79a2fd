//! A task ends, or waits for its next run.

use crate::task::Place;
use crate::{Action, Cause, Core, Facts, Outcome, Span, TaskId};

impl Core {
    /// Ends a task that is in no lane and at no worker any more. The outcome is reported, unless it
    /// was before.
    pub(crate) fn finish(&mut self, id: TaskId, outcome: Outcome) {
        let facts = self.facts(id);
        let wanted = self.tasks[id].wanted;
        self.forget(id);
        self.out.push(match wanted {
            true => Action::Finish {
                task: id,
                outcome,
                facts,
            },
            false => Action::Drop { task: id },
        });
    }

    /// Ends a task that waits.
    pub(crate) fn finish_waiting(&mut self, id: TaskId, outcome: Outcome) {
        self.withdraw(id);
        self.finish(id, outcome);
    }

    /// Tells the source how a task ends while a worker still has it.
    pub(crate) fn answer_early(&mut self, id: TaskId, outcome: Outcome) {
        let facts = self.facts(id);
        if std::mem::replace(&mut self.tasks[id].wanted, false) {
            self.unblock(id);
            self.out.push(Action::Answer {
                task: id,
                outcome,
                facts,
            });
        }
    }

    /// Gives a job back to its store for another run.
    pub(crate) fn retry(&mut self, id: TaskId, after: Option<Span>, cause: Cause) {
        let facts = self.facts(id);
        self.block_behind(id);
        self.forget(id);
        self.out.push(Action::Retry {
            task: id,
            after,
            cause,
            facts,
        });
    }

    /// Puts a task that was assigned back where it was, or before all others if it ran.
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
        self.unblock(id);
        let task = self.tasks.remove(id);
        if self.queues[task.queue.index()].retire(task.key) {
            self.request_keys(task.queue);
        }
    }

    /// The worker that made this call no longer waits for it.
    fn unblock(&mut self, id: TaskId) {
        let parent = self.tasks[id].parent.take();
        if let Some(parent) = parent.and_then(|parent| self.workers.get_mut(parent)) {
            parent.calls_to_own_pool -= 1;
            // It may be cleared for a suspect now, of a queue that is not the call's.
            let pool = parent.pool;
            self.touch(pool);
        }
    }

    fn facts(&self, id: TaskId) -> Facts {
        let task = &self.tasks[id];
        let worker = match task.place {
            Place::Out(worker) => Some(worker),
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
