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
    pub(crate) bytes: u64,
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
            .any(|limit| worker.size.bytes > limit.saturating_add(limit / 2))
    }

    /// A task of a worker ends. The worker must have been killed if it was far too large for long.
    pub(crate) fn check_size(&self, worker: &Worker) {
        let is_known = !is_guest(worker.key) && !worker.is_rogue;
        let limits = self.memory_limits_of(worker);
        let is_too_large = worker.size.since + MAX_TIME < steady()
            && limits.len() == 1
            && limits
                .iter()
                .all(|limit| worker.size.bytes > limit.saturating_add(limit / 2));
        assert!(
            !is_known || !is_too_large,
            "{} has long taken much more memory than memory_limit allows, and still runs tasks; left: {:?}, {limits:?}",
            worker.name,
            worker.size
        );
    }

    /// Nothing runs any more: workers that are too large must have been replaced.
    pub(crate) fn check_sizes_at_rest(&self) {
        let own = self.workers.values().filter(|worker| !is_guest(worker.key));
        for worker in own.filter(|worker| worker.is_settled()) {
            let limits = self.memory_limits_of(worker);
            let is_old = worker.size.since + 2 * MAX_TIME < steady();
            let is_too_large =
                limits.len() == 1 && limits.iter().all(|limit| worker.size.bytes > *limit);
            assert!(
                !is_old || !is_too_large,
                "{} takes more memory than memory_limit allows, and is not replaced; left: {:?}, {limits:?}",
                worker.name,
                worker.size
            );
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
