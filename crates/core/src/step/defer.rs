//! Handles what the data plane can't do for lack of memory: send a task, or read a worker's answers.

use crate::task::Place;
use crate::{Core, Outcome, TaskId, WorkerId};

impl Core {
    /// Handles an assigned task that could not be sent. Its worker never had it and may take another one.
    pub(crate) fn defer(&mut self, id: WorkerId, task: TaskId) {
        let holds = |worker: &crate::worker::Worker| worker.tasks.contains(&task);
        if !self.workers.get(id).is_some_and(holds) {
            return;
        }
        self.unassign(id, task);
        self.restore_request(id);
        if self.is_unwanted(task) {
            self.finish(task, Outcome::Cancelled);
        } else {
            let deferred = &mut self.tasks[task];
            deferred.place = Place::Deferred;
            deferred.started = None;
            deferred.begun = false;
            deferred.signalled_at = None;
            let (queue, key) = (deferred.queue, deferred.key);
            self.queues[queue.index()].keys[key].deferred += 1;
        }
        self.after_task(id);
    }

    /// Lets a deferred task be assigned again.
    pub(crate) fn resume(&mut self, task: TaskId) {
        if self.is_deferred(task) {
            self.end_deferral(task);
            self.requeue(task);
        }
    }

    /// Ends a deferred task.
    pub(crate) fn finish_deferred(&mut self, task: TaskId, outcome: Outcome) {
        self.end_deferral(task);
        self.finish(task, outcome);
    }

    /// Takes a task out of the deferred ones. The caller must put it elsewhere or end it.
    pub(crate) fn end_deferral(&mut self, task: TaskId) {
        let (queue, key) = (self.tasks[task].queue, self.tasks[task].key);
        self.queues[queue.index()].keys[key].deferred -= 1;
        self.tasks[task].place = Place::Lane;
    }

    /// Records that the data plane stops reading a worker's answers, or resumes. The time in between does not count
    /// against the worker's tasks.
    pub(crate) fn reading_paused(&mut self, id: WorkerId, paused: bool) {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(id) else {
            return;
        };
        match (paused, worker.reading_paused_since) {
            (true, None) => worker.reading_paused_since = Some(now),
            (false, Some(since)) => {
                worker.reading_paused_since = None;
                for at in 0..self.workers[id].tasks.len() {
                    let task = self.workers[id].tasks[at];
                    let task = &mut self.tasks[task];
                    let since = task.started.map(|started| started.max(since));
                    let excused = since.map(|since| now.since(since)).unwrap_or_default();
                    task.excused.0 += excused.0;
                    task.signalled_at =
                        task.signalled_at.map(|signalled_at| signalled_at + excused);
                }
            }
            _ => return,
        }
        self.set_worker_timer(id);
    }
}
