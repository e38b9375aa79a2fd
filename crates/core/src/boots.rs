//! The workers that boot at the same time, and the pools that wait until they may start one.

use crate::{PoolId, Time, WorkerId};

/// The workers that boot, and the pools that wait until they may start one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Boots {
    pub(crate) running: Vec<Boot>,
    /// Pools that would start a worker now if more could boot, those that have waited for longest first.
    pub(crate) waiting: Vec<PoolId>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Boot {
    pub(crate) worker: WorkerId,
    pub(crate) pool: PoolId,
    pub(crate) since: Time,
}

impl Boots {
    /// Records that a worker boots no longer, because it is ready or ends.
    pub(crate) fn end(&mut self, worker: WorkerId) {
        self.running.retain(|boot| boot.worker != worker);
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.running.iter().map(|boot| boot.worker)
    }

    pub(crate) fn has_waiting(&self, pool: PoolId) -> bool {
        self.waiting.contains(&pool)
    }
}
