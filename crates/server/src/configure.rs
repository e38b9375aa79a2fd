//! Applies the configuration to pools, queues and services, at the start and by a reload.

use crate::config::{JobsConfig, Pool as PoolSpec, Queue, Service};
use crate::observe::events;
use crate::plane::Plane;
use std::sync::Arc;
use stoker_core::{Event, Kind, PoolId, QueueConfig};

impl Plane {
    /// Creates everything that the configuration contains. Called once, at the start.
    pub(crate) fn add_pools_and_queues(&mut self) {
        let config = self.config.clone();
        for pool in &config.pools {
            let pool = self.restore_scaled_size(pool.clone());
            self.add_pool(&pool);
        }
        for queue in &config.queues {
            self.configure_queue(queue);
        }
        self.restore_queues();
        for service in &config.services {
            self.configure_service(service);
        }
    }

    pub(crate) fn add_pool(&mut self, pool: &PoolSpec) {
        let id = self.core.add_pool(&pool.name, pool.core_config());
        // A removed pool may have had the same id.
        self.workers.versions.retain(|(pool, _), _| *pool != id);
        self.workers.restarts.remove(&id);
        self.workers.spent.remove(&id);
        self.workers.last_exits.remove(&id);
        self.admin.reloads.forget(id);
        let spec = self.spec_to_start(pool);
        let version = self.workers.new_version(spec);
        self.workers.versions.insert((id, 1), version);
    }

    /// Restores the size of a pool that an operator had set before the server was started again. It always fits,
    /// because the queues' reserves were checked whenever either changed.
    fn restore_scaled_size(&mut self, mut pool: PoolSpec) -> PoolSpec {
        let Some((min, max)) = self.launch.scaled.get(&pool.name).copied() else {
            return pool;
        };
        (pool.core.min, pool.core.max) = (min, max);
        let name = pool.name.as_str();
        let text = format!(
            "pool {name} has {min} to {max} workers, set by `stoker scale`; `stoker scale {name} --reset` restores \
             the configured size"
        );
        let entry = events::POOL_OVERRIDDEN.message(text).with("pool", name);
        self.log.put(entry.with("min", min).with("max", max));
        pool
    }

    pub(crate) fn remove_pool(&mut self, pool: PoolId) {
        self.admin.reloads.forget(pool);
        self.end_zygotes(pool, |_| false);
        self.step(Event::PoolRemoved { pool }, None);
    }

    /// The configuration of a pool.
    pub(crate) fn pool_spec(&self, id: PoolId) -> Option<&PoolSpec> {
        let name = self.core.pool(id).0;
        self.config.pools.iter().find(|pool| pool.name == name)
    }

    /// The number of tasks that a pool with this minimum of processes can always run at once.
    pub(crate) fn guaranteed_slots_with(&self, id: PoolId, min: u32) -> u32 {
        self.pool_spec(id)
            .map_or(min, |spec| spec.guaranteed_slots_with(min))
    }

    /// The configuration with which workers of a pool are started from now on. Its directory is resolved against
    /// the current base directory, which a deploy may change.
    pub(crate) fn spec_to_start(&self, pool: &PoolSpec) -> Arc<PoolSpec> {
        let base = &self.launch.base;
        let directory = pool
            .directory
            .as_ref()
            .map(|directory| base.join(directory));
        Arc::new(PoolSpec {
            directory: Some(directory.unwrap_or_else(|| base.clone())),
            ..pool.clone()
        })
    }

    pub(crate) fn configure_queue(&mut self, queue: &Queue) {
        let Some(pool) = self.core.find_pool(&queue.pool) else {
            return;
        };
        let config = queue.core.clone();
        let id = self
            .core
            .add_queue(Kind::Jobs, &queue.name, config, &[pool]);
        self.core.unbind_other_pools(id, &[pool]);
        if self.jobs.queue(id).is_none() {
            return self.open_queue(id, queue.jobs.clone());
        }
        self.configure_jobs(id, queue.jobs.clone());
        self.configure_overridden(id, queue.core.clone());
    }

    pub(crate) fn configure_service(&mut self, service: &Service) {
        let Some(pool) = self.core.find_pool(&service.pool) else {
            return;
        };
        let config = service.core.clone();
        let id = self
            .core
            .add_queue(Kind::Calls, &service.name, config, &[pool]);
        self.core.unbind_other_pools(id, &[pool]);
        self.core.undeclare_idempotent(id);
        for method in &service.idempotent {
            let call = format!("{}.{method}", service.name);
            self.core.declare_idempotent(&call);
        }
        self.configure_overridden(id, service.core.clone());
    }

    /// Handles a queue or service that the configuration no longer names. Its jobs stay in the store.
    pub(crate) fn unconfigure(&mut self, kind: Kind, name: &str) {
        let Some(queue) = self.core.find_queue(kind, name) else {
            return;
        };
        self.step(Event::Unconfigured { queue }, None);
        match kind {
            Kind::Jobs => self.configure_jobs(queue, JobsConfig::default()),
            Kind::Calls => self.core.undeclare_idempotent(queue),
        }
        let config: QueueConfig = self.core.queue(queue).config.clone();
        self.configure_overridden(queue, config);
    }
}
