//! Removes pools and queues that a new configuration no longer has, while the server runs. New ones are added
//! in the same way as at the start.

use crate::{Core, Kind, PoolId, QueueConfig, QueueId, StopReason};

impl Core {
    /// Removes a pool: it serves no queue any more, and its workers finish their tasks and exit.
    pub(crate) fn remove_pool(&mut self, id: PoolId) {
        let pool = &mut self.pools[id.index()];
        if std::mem::replace(&mut pool.removed, true) {
            return;
        }
        (pool.config.min, pool.config.max) = (0, 0);
        if pool.fallback.is_some() {
            self.end_reload(id, false);
        }
        self.names.any_jobs.retain(|any| *any != id);
        self.unbind_guests_of_pool(id);
        for queue in &mut self.queues {
            queue.announced.retain(|announced| *announced != id);
        }
        for queue in self.pools[id.index()].queues.clone() {
            self.unbind_except(queue, |bound| bound != id);
            self.bind_if_unserved(queue);
        }
        for worker in self.pools[id.index()].workers.clone() {
            self.stop(worker, StopReason::Surplus);
        }
        self.request_resize(id);
        self.end_unserved_calls();
    }

    /// Removes the configuration of a queue. Its waiting tasks stay, and so does `ordered`, because tasks may
    /// have been assigned under that rule already.
    pub(crate) fn unconfigure(&mut self, id: QueueId) {
        let queue = &mut self.queues[id.index()];
        queue.configured = false;
        queue.config = QueueConfig {
            ordered: queue.config.ordered,
            ..QueueConfig::default()
        };
        queue.relist_all(&self.tasks);
        let announced = queue.announced.clone();
        self.unbind_except(id, |bound| announced.contains(&bound));
        for pool in announced {
            self.bind(id, pool);
        }
        self.bind_if_unserved(id);
        self.touch_pools_of(id);
        self.end_unserved_calls();
    }

    /// Unbinds a queue from all pools except these. Tasks that were already assigned to workers of other pools
    /// stay there.
    pub fn unbind_other_pools(&mut self, queue: QueueId, pools: &[PoolId]) {
        self.unbind_except(queue, |bound| pools.contains(&bound));
    }

    fn bind_if_unserved(&mut self, id: QueueId) {
        let queue = &self.queues[id.index()];
        if queue.kind == Kind::Jobs && queue.pools.is_empty() && !queue.vacant {
            self.bind_to_any(id);
        }
    }

    /// Binds a job queue to every pool that serves any job queue.
    pub(crate) fn bind_to_any(&mut self, id: QueueId) {
        for at in 0..self.names.any_jobs.len() {
            self.bind(id, self.names.any_jobs[at]);
        }
        for at in 0..self.names.any_guests.len() {
            self.bind_guest(id, self.names.any_guests[at]);
        }
    }

    pub(crate) fn unbind_except(&mut self, id: QueueId, keep: impl Fn(PoolId) -> bool) {
        let bound = std::mem::take(&mut self.queues[id.index()].pools);
        let (kept, gone): (Vec<_>, Vec<_>) = bound.into_iter().partition(|pool| keep(*pool));
        self.queues[id.index()].pools = kept;
        for pool_id in gone {
            let pool = &mut self.pools[pool_id.index()];
            pool.queues.retain(|queue| *queue != id);
            pool.deactivate(id);
            self.touch(pool_id);
        }
    }
}
