//! Operations on pools: scale and reload.

use super::{Answered, Caller, Handle, Rejected};
use crate::counted;
use crate::plane::Plane;
use stoker_api::pool;
use stoker_core::{Event, Health, PoolId, WorkerState};

impl Handle for pool::Scale {
    fn handle(self, plane: &mut Plane, _: Caller) -> Answered<pool::Pool> {
        let id = plane.pool_named(&self.pool.0)?;
        let own = plane.pool_spec(id).filter(|_| self.reset);
        let (min, max) = match (own, self.min, self.max) {
            (Some(own), _, _) => (own.core.min, own.core.max),
            (None, Some(min), Some(max)) => (min.0 as u32, max.0 as u32),
            (None, _, _) => return Err(Rejected::not_found("the pool is being removed")),
        };
        plane.scale_pool(id, min, max).map(Some)
    }
}

impl Handle for pool::Reload {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<pool::Reloaded> {
        plane.reload_pools(caller, self.pool.as_ref().map(|pool| pool.0.as_str()))
    }
}

impl Plane {
    fn scale_pool(&mut self, pool: PoolId, min: u32, max: u32) -> Result<pool::Pool, Rejected> {
        let queues = self
            .core
            .queues()
            .filter(|queue| queue.pools.contains(&pool));
        let reserved: u32 = queues.map(|queue| queue.config.reserve).sum();
        if self.guaranteed_slots_with(pool, min) < reserved {
            let needed = reserved.div_ceil(self.guaranteed_slots_with(pool, 1).max(1));
            return Err(Rejected::invalid(format!(
                "the reserves of the pool's queues add up to {}, so min must be at least {needed}",
                counted(reserved, "worker")
            )));
        }
        self.step(Event::Scale { pool, min, max }, None);
        self.settle();
        self.save_sizes();
        Ok(self.shown_pool(pool))
    }

    pub(super) fn pool_named(&self, name: &str) -> Result<PoolId, Rejected> {
        self.core.find_pool(name).ok_or_else(|| {
            let names = self.core.pools().map(|pool| self.core.pool(pool).0);
            let names: Vec<&str> = names.collect();
            Rejected::not_found(format!(
                "there is no pool '{}'; expected one of: {}",
                stoker_api::printable(name),
                names.join(", ")
            ))
        })
    }

    pub(super) fn shown_pool(&self, id: PoolId) -> pool::Pool {
        let (name, config, health, version) = self.core.pool(id);
        let of_pool = || self.core.workers().filter(|worker| worker.pool == id);
        let count = |state| of_pool().filter(|worker| worker.state == state).count();
        pool::Pool {
            name: name.to_owned(),
            state: match health {
                Health::Starting => pool::Health::Starting,
                Health::Healthy => pool::Health::Healthy,
                Health::Failing { .. } => pool::Health::Unhealthy,
                Health::Blamed => pool::Health::Blamed,
            },
            version,
            min: config.min,
            max: config.max,
            ready: count(WorkerState::Ready),
            busy: count(WorkerState::Busy),
            spent: self.workers.spent.get(&id).copied().unwrap_or(0),
            tasks_per_worker: Some(self.core.tasks_per_worker(id)).filter(|tasks| *tasks > 0),
            restarts: self.workers.restarts.get(&id).copied().unwrap_or(0),
            last_exit: self.workers.last_exits.get(&id).cloned(),
            failed_boot: self.admin.reloads.failed_boot(id).cloned(),
        }
    }
}
