//! Operator actions: pausing queues, scaling pools and draining the server.

use crate::task::Place;
use crate::worker::Life;
use crate::{Action, Core, Outcome, PoolId, QueueId, Span, StopReason, TaskId, WorkerId};

impl Core {
    pub(crate) fn pause(&mut self, queue: QueueId, paused: bool) {
        self.queues[queue.index()].paused = paused;
        self.touch_pools_of(queue);
    }

    pub(crate) fn scale(&mut self, pool: PoolId, min: u32, max: u32) {
        let config = &mut self.pools[pool.index()].config;
        config.max = max.max(1);
        config.min = min.min(config.max);
        for worker in self.pools[pool.index()].workers.clone() {
            self.set_worker_timer(worker);
        }
        self.request_resize(pool);
    }

    /// Starts the drain: no new calls are accepted and no jobs are started. Waiting calls are served while
    /// their workers' grace periods last, then rejected.
    pub(crate) fn drain(&mut self) {
        if self.draining.is_some() {
            return;
        }
        self.draining = Some(self.now);
        for id in self.workers.ids().collect::<Vec<WorkerId>>() {
            match self.workers[id].life {
                Life::Starting { .. } => self.kill(id, StopReason::Shutdown),
                _ => self.set_worker_timer(id),
            }
        }
        for pool in (0..self.pools.len() as u32).map(PoolId) {
            if self.pools[pool.index()].fallback.is_some() {
                self.end_reload(pool, false);
            }
        }
        self.request_resize_all();
    }

    /// Completes the drain once the last worker has gone: tasks that still wait are released.
    pub(crate) fn finish_drain(&mut self) {
        if self.draining.is_none() || self.drained || !self.workers.is_empty() {
            return;
        }
        self.drained = true;
        for task in self.tasks.ids().collect::<Vec<TaskId>>() {
            match self.tasks[task].place {
                Place::Deferred => self.end_deferral(task),
                _ => self.withdraw(task),
            }
            if self.tasks[task].is_job() {
                self.forget(task);
                self.actions.push(Action::Return { task });
            } else {
                let retry_after = Span::from_secs(1);
                self.finish(task, Outcome::Unavailable { retry_after });
            }
        }
        self.actions.push(Action::Drained);
    }
}
