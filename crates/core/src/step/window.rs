//! Prefetching: tasks are assigned to busy workers before a slot is free.

use crate::task::Place;
use crate::{Core, PoolId, QueueId, TaskId, WorkerId};

impl Core {
    /// Assigns tasks ahead to busy workers, so that a short task does not wait for a round trip. Tasks are
    /// prefetched only when no worker is idle, only if the running task's name and their own have had short
    /// runs for some time, and only if they may run again, because the worker may die with them.
    pub(crate) fn extend_windows(&mut self, pool: PoolId) {
        if !self.pools[pool.index()].idle.is_empty() || self.pools[pool.index()].active.is_empty() {
            return;
        }
        // Only the worker that answered last and the next one in turn are checked: checking all workers at
        // every step would cost more than prefetching saves.
        let pool_of = &mut self.pools[pool.index()];
        let answered_last = pool_of.answered_last.take();
        pool_of.next_window_check = (pool_of.next_window_check + 1) % pool_of.workers.len().max(1);
        let next = pool_of.workers.get(pool_of.next_window_check).copied();
        for worker in answered_last.into_iter().chain(next) {
            // A window is filled only when it is at most half full, because many small refills would mean many
            // small writes.
            let half = self.limits.prefetch_window / 2;
            let held = self.workers.get(worker).map(|worker| worker.tasks.len());
            if held.is_some_and(|held| held <= half)
                && self.may_prefetch(worker)
                && self.cleared_for_suspect(pool) != Some(worker)
            {
                self.fill_window(pool, worker);
            }
        }
    }

    fn fill_window(&mut self, pool: PoolId, worker: WorkerId) {
        let room = self.limits.prefetch_window.min(self.fair_share(pool));
        while self.workers[worker].tasks.len() < room && self.workers[worker].room() > 0 {
            let Some(task) = self.choose(pool, false).filter(|task| self.is_short(*task)) else {
                return;
            };
            self.assign(worker, task);
        }
    }

    /// The number of waiting tasks for each worker: a window must not take work that another worker could
    /// start.
    fn fair_share(&self, pool: PoolId) -> usize {
        let pool = &self.pools[pool.index()];
        let waiting: u32 = pool
            .active
            .iter()
            .map(|queue| self.queues[queue.index()].waiting)
            .sum();
        1 + waiting as usize / pool.workers.len().max(1)
    }

    fn may_prefetch(&self, id: WorkerId) -> bool {
        let Some(worker) = self.workers.get(id) else {
            return false;
        };
        let suspect = self.pools[worker.pool.index()].suspect;
        worker.is_live()
            && worker.slots == 1
            // A worker of an isolated pool starts a program for each task, which costs more than a round trip.
            && !self.is_isolated(worker.pool)
            && !worker.demand.is_pull()
            && !worker.outdated
            && worker
                .tasks
                .front()
                .is_some_and(|head| Some(*head) != suspect && self.is_short(*head))
    }

    #[inline]
    fn is_short(&self, task: TaskId) -> bool {
        let task = &self.tasks[task];
        // A job that is recorded before it is sent would be overtaken by the tasks behind it.
        let is_recorded_first = |queue: QueueId| self.queues[queue.index()].config.ack_on_delivery;
        task.may_run_again()
            && task.place != Place::Suspects
            && self.names.all[task.name.index()].estimate.is_short()
            && !(task.is_job() && is_recorded_first(task.queue))
    }
}
