//! The list of workers.

use super::{Answered, Caller, Handle};
use crate::clock::rfc3339;
use crate::plane::Plane;
use stoker_api::worker::{self, Kind, State, Task, Worker, Workers};
use stoker_core::{PoolId, TaskId, Time, WorkerState, WorkerView};
use stoker_os::tree_resident_bytes;

impl Handle for worker::List {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Workers> {
        let workers: Vec<WorkerView> = plane.core.workers().collect();
        let workers = workers.iter().filter_map(|worker| {
            let task = worker.task.map(|(task, _)| task);
            let sees = task.is_some_and(|task| plane.may_see_task(caller.conn, task));
            plane.shown_worker(worker, sees)
        });
        let workers = workers.collect();
        let pools: Vec<PoolId> = plane.core.pools().collect();
        Ok(Some(Workers {
            workers,
            pools: pools
                .into_iter()
                .map(|pool| plane.shown_pool(pool))
                .collect(),
            zygotes: plane.shown_zygotes(),
            max_lag_us: plane.stats.max_lag_us,
            metrics: plane.stats.metrics.list(),
        }))
    }
}

impl Plane {
    /// `sees` says whether the caller may see the id of the worker's task.
    fn shown_worker(&self, worker: &WorkerView, sees: bool) -> Option<Worker> {
        let handle = self.worker_handle(worker.id)?;
        let task = worker.task;
        let conn = handle.conn.and_then(|conn| self.peers.conns.get(conn));
        Some(Worker {
            id: handle.name.clone(),
            pool: self.core.pool(worker.pool).0.to_owned(),
            version: worker.version,
            kind: match worker.spawned {
                true => Kind::Spawned,
                false => Kind::Connected,
            },
            pid: handle.pid,
            address: conn.and_then(|conn| conn.address.as_deref().map(str::to_owned)),
            state: match worker.state {
                WorkerState::Starting => State::Starting,
                WorkerState::Ready => State::Ready,
                WorkerState::Busy => State::Busy,
                WorkerState::Draining => State::Draining,
                WorkerState::Stopping => State::Stopping,
            },
            slots: worker.slots,
            task: task.map(|(task, started)| self.shown_task(task, started, sees)),
            assigned: worker.assigned,
            tasks: worker.done,
            rss_bytes: tree_resident_bytes(handle.pid).map(|(bytes, _)| bytes),
            started_at: rfc3339(handle.started_ms),
            last_exit: self.workers.last_exits.get(&worker.pool).cloned(),
        })
    }

    fn shown_task(&self, task: TaskId, started: Time, sees: bool) -> Task {
        let queue = self.core.queue_of_name(self.payload(task).name);
        Task {
            id: sees.then(|| self.task_label(task)),
            queue: self.core.queue(queue).name.to_owned(),
            elapsed_ms: self.now.since(started).as_millis(),
        }
    }
}
