//! Workers whose tasks leave more and more memory behind: a worker above its pool's `memory_limit` must be replaced, one far
//! above it must be killed within its task, and no other may be.

use crate::guests::is_guest;
use crate::setup::{Pool, Section};
use crate::worker::Worker;
use crate::world::World;
use std::time::Duration;
use stoker_os::{sim, steady};

/// The memory that a new process takes.
pub(crate) const BYTES_AT_START: u64 = 20 << 20;
/// What a process may grow to: just above the smallest `memory_limit` that is drawn, far above it, and far above every one.
const SIZES: [u64; 4] = [65 << 20, 96 << 20, 100 << 20, 2_000 << 20];
/// After this time, a worker must have been measured and killed, or its successor be ready.
const MAX_TIME: Duration = Duration::from_secs(10);

/// The memory that a worker takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    bytes: u64,
    /// When the worker grew to that.
    since: Duration,
}

impl Size {
    pub(crate) fn at_start() -> Self {
        Self {
            bytes: BYTES_AT_START,
            since: steady(),
        }
    }

    /// Whether the worker has been larger than this for longer than `time`.
    fn has_been_above(self, bytes: u64, time: Duration) -> bool {
        self.bytes > bytes && self.since + time < steady()
    }
}

/// The size in bytes above which a worker is killed within its task.
fn kills_above(limit: u64) -> u64 {
    limit.saturating_add(limit / 2)
}

impl World {
    /// A task begins, whose code may take more memory.
    pub(crate) fn may_grow(&mut self, key: u64) {
        let growth = self.behaviour.growth;
        if growth == 0 || !self.dice("growth").percent(growth) {
            return;
        }
        let bytes = *self.dice("growth").one_of(&SIZES);
        if let Some(worker) = self.workers.get_mut(&key)
            && worker.size.bytes < bytes
            // The limit of an adapter's pool applies to its programs.
            && !worker.is_adapter()
        {
            let since = steady();
            worker.size = Size { bytes, since };
            sim::set_bytes(worker.pid, bytes);
        }
    }

    /// Whether the server may kill the worker because it takes too much memory.
    pub(crate) fn is_far_too_large(&self, worker: &Worker) -> bool {
        let limits = self.memory_limits_of(worker);
        limits
            .into_iter()
            .any(|limit| worker.size.bytes > kills_above(limit))
    }

    /// A task of a worker ends. The worker must have been killed if it was far too large for long.
    pub(crate) fn check_size(&self, worker: &Worker) {
        let is_judged = !is_guest(worker.key) && !worker.is_rogue;
        let limit = self.known_memory_limit_of(worker).filter(|_| is_judged);
        assert!(
            limit.is_none_or(|limit| !worker.size.has_been_above(kills_above(limit), MAX_TIME)),
            "{} has long taken much more memory than memory_limit allows, and still runs tasks; left: {:?}, {limit:?}",
            worker.name,
            worker.size
        );
    }

    /// Nothing runs any more: workers that are too large must have been replaced.
    pub(crate) fn check_sizes_at_rest(&self) {
        let own = self.workers.values().filter(|worker| !is_guest(worker.key));
        for worker in own.filter(|worker| worker.is_settled()) {
            let limit = self.known_memory_limit_of(worker);
            assert!(
                limit.is_none_or(|limit| !worker.size.has_been_above(limit, 2 * MAX_TIME)),
                "{} takes more memory than memory_limit allows, and is not replaced; left: {:?}, {limit:?}",
                worker.name,
                worker.size
            );
        }
    }

    /// The `memory_limit` of this worker in bytes; `None` if a reload may have changed it.
    fn known_memory_limit_of(&self, worker: &Worker) -> Option<u64> {
        match self.memory_limits_of(worker)[..] {
            [limit] => Some(limit),
            _ => None,
        }
    }

    /// The values that `memory_limit` may have for this worker, in bytes. A pool without one has no limit.
    fn memory_limits_of(&self, worker: &Worker) -> Vec<u64> {
        let pool = self.pools.get(&worker.key);
        let pool = pool.and_then(|pool| self.setup.pool(pool));
        let sections = pool
            .into_iter()
            .flat_map(|pool| Pool::sections(&self.setup.pools[pool]));
        let limit = |section: &Section| section.bytes("memory_limit").unwrap_or(u64::MAX);
        let mut limits: Vec<u64> = sections.map(limit).collect();
        limits.sort_unstable();
        limits.dedup();
        limits
    }
}
