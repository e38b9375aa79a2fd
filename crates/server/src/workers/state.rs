//! The state of all workers.

use super::{Version, WorkerHandle, ZygoteHandle};
use crate::config::Pool as PoolSpec;
use crate::net::ConnId;
use crate::plane::Plane;
use std::collections::HashMap;
use std::sync::Arc;
use stoker_angel::ZygoteKey;
use stoker_core::{PoolId, WorkerId};

/// The workers of all pools, and what is counted of them.
#[derive(Default)]
pub(crate) struct Workers {
    /// Indexed by the slot of the worker's id.
    pub(crate) handles: Vec<Option<WorkerHandle>>,
    /// Outputs that are paused until the log has caught up.
    pub(crate) paused_outputs: Vec<ConnId>,
    /// What the workers of each version of a pool are started with.
    pub(crate) versions: HashMap<(PoolId, u32), Version>,
    /// The processes that fork workers.
    pub(crate) zygotes: HashMap<ZygoteKey, ZygoteHandle>,
    /// The number of versions so far, from which the keys of zygotes are taken.
    last_zygote: ZygoteKey,
    /// For each pool, the number of workers that ran their last task and exited normally.
    pub(crate) spent: HashMap<PoolId, u64>,
    /// For each pool, the number of workers that ended unexpectedly.
    pub(crate) restarts: HashMap<PoolId, u64>,
    /// For each pool, how the last worker that ended unexpectedly did so.
    pub(crate) last_exits: HashMap<PoolId, String>,
}

impl Workers {
    /// A new version of a pool.
    pub(crate) fn new_version(&mut self, spec: Arc<PoolSpec>) -> Version {
        self.last_zygote += 1;
        Version::new(spec, self.last_zygote)
    }
}

impl Plane {
    pub(crate) fn worker_handle(&self, worker: WorkerId) -> Option<&WorkerHandle> {
        let handle = self.workers.handles.get(worker.slot as usize)?;
        handle.as_ref().filter(|handle| handle.id == worker)
    }

    pub(crate) fn worker_handle_mut(&mut self, worker: WorkerId) -> Option<&mut WorkerHandle> {
        let handle = self.workers.handles.get_mut(worker.slot as usize)?;
        handle.as_mut().filter(|handle| handle.id == worker)
    }

    pub(crate) fn add_worker_handle(&mut self, handle: WorkerHandle) {
        let slot = handle.id.slot as usize;
        if self.workers.handles.len() <= slot {
            self.workers.handles.resize_with(slot + 1, || None);
        }
        self.workers.handles[slot] = Some(handle);
    }
}
