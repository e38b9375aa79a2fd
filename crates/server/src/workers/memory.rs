//! How much memory a worker takes, with all that it started.

use crate::plane::{Plane, Todo};
use stoker_core::{Span, Time, WorkerId};
use stoker_os::{tree_proportional_bytes, tree_resident_bytes};

/// Shared pages are looked for at most so often: that takes milliseconds where memory is large.
const LOOK_EVERY: Span = Span::from_secs(2);

/// What a worker and its children share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shared {
    /// Bytes that were counted more than once.
    bytes: u64,
    next_look: Time,
}

impl Plane {
    /// Measures a worker. Most have no children, and then it is one small file.
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
            true => self.count_once(worker, pid, resident),
            false => resident,
        };
        self.todo.push_back(Todo::Measured { worker, rss });
    }

    /// A fork shares its parent's pages, which count for both. What is shared hardly changes from one look to the
    /// next.
    fn count_once(&mut self, worker: WorkerId, pid: i32, resident: u64) -> u64 {
        let now = self.now;
        let Some(handle) = self.worker_handle_mut(worker) else {
            return resident;
        };
        if handle.shared.next_look <= now {
            let bytes =
                tree_proportional_bytes(pid).map_or(0, |once| resident.saturating_sub(once));
            let next_look = now + LOOK_EVERY;
            handle.shared = Shared { bytes, next_look };
        }
        resident.saturating_sub(handle.shared.bytes)
    }
}
