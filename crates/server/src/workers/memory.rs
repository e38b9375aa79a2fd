//! Measures how much memory a worker takes, including its child processes.

use crate::plane::{Plane, Todo};
use stoker_core::{Span, Time, WorkerId};
use stoker_os::{tree_proportional_bytes, tree_resident_bytes};

/// The minimum time between two measurements of shared pages, which take milliseconds if memory is large.
const SHARED_MEMORY_INTERVAL: Span = Span::from_secs(2);

/// The memory that a worker and its children share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SharedMemory {
    /// Bytes that were counted more than once.
    bytes: u64,
    next_measurement: Time,
}

impl Plane {
    /// Measures a worker. Most workers have no children; then only one small file is read.
    pub(crate) fn measure(&mut self, worker: WorkerId) {
        let Some(handle) = self.worker_handle(worker) else {
            return;
        };
        let (pid, pool) = (handle.pid, handle.pool);
        let Some((resident, processes)) = tree_resident_bytes(pid) else {
            return;
        };
        let limit = self.core.pool(pool).1.memory_limit;
        let rss = match processes > 1 && resident > limit {
            true => self.subtract_shared(worker, pid, resident),
            false => resident,
        };
        self.todo.push_back(Todo::Measured { worker, rss });
    }

    /// Subtracts the shared pages, which would otherwise be counted once for the parent and again for each of its forks.
    /// The amount of shared memory changes little between two measurements.
    fn subtract_shared(&mut self, worker: WorkerId, pid: i32, resident: u64) -> u64 {
        let now = self.now;
        let Some(handle) = self.worker_handle_mut(worker) else {
            return resident;
        };
        if handle.shared.next_measurement <= now {
            let bytes =
                tree_proportional_bytes(pid).map_or(0, |once| resident.saturating_sub(once));
            let next_measurement = now + SHARED_MEMORY_INTERVAL;
            handle.shared = SharedMemory {
                bytes,
                next_measurement,
            };
        }
        resident.saturating_sub(handle.shared.bytes)
    }
}
