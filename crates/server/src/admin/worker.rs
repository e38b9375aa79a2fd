use crate::clock::rfc3339;
use crate::plane::Plane;
use serde_json::{Value, json};
use stoker_angel::tree_resident_bytes;
use stoker_core::{Health, PoolId, WorkerView};

impl Plane {
    pub(crate) fn list_workers(&mut self) -> Value {
        let workers: Vec<WorkerView> = self.core.workers().collect();
        let workers: Vec<Value> = workers
            .into_iter()
            .filter_map(|worker| self.worker_json(&worker))
            .collect();
        let pools: Vec<PoolId> = self.core.pools().collect();
        let pools: Vec<Value> = pools.into_iter().map(|pool| self.pool_json(pool)).collect();
        json!({"workers": workers, "pools": pools, "max_lag_us": self.max_lag_us})
    }

    fn worker_json(&self, worker: &WorkerView) -> Option<Value> {
        let link = self.link(worker.id)?;
        let task = worker.task.map(|(task, started)| {
            let load = self.load(task);
            json!({"id": self.task_label(task), "queue": self.core.queue(self.core.queue_of_name(load.name)).name,
                "elapsed_ms": self.now.since(started).as_millis()})
        });
        Some(json!({
            "id": link.name,
            "pool": self.core.pool(worker.pool).0,
            "version": worker.version,
            "kind": if worker.spawned { "spawned" } else { "connected" },
            "pid": link.pid,
            "state": worker.state,
            "slots": worker.slots,
            "task": task,
            "lent": worker.lent,
            "tasks": worker.done,
            "rss_bytes": tree_resident_bytes(link.pid).map(|(bytes, _)| bytes),
            "started_at": rfc3339(link.started_ms),
            "last_exit": self.last_exits.get(&worker.pool),
        }))
    }

    pub(crate) fn pool_json(&self, id: PoolId) -> Value {
        let (name, config, health, version) = self.core.pool(id);
        let of_pool = || self.core.workers().filter(|worker| worker.pool == id);
        let state = match health {
            Health::Starting => "starting",
            Health::Healthy => "healthy",
            Health::Failing { .. } => "unhealthy",
            Health::Blamed => "blamed",
        };
        json!({
            "name": name,
            "state": state,
            "version": version,
            "min": config.min,
            "max": config.max,
            "ready": of_pool().filter(|worker| worker.state == "ready").count(),
            "busy": of_pool().filter(|worker| worker.state == "busy").count(),
            "restarts": self.restarts.get(&id).copied().unwrap_or(0),
            "last_exit": self.last_exits.get(&id),
            "failed_boot": self.reloads.failed_boot(id),
        })
    }
}
