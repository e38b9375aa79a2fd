//! Which pool may start the next worker, while only some workers may boot at the same time.

use crate::boots::Boot;
use crate::{Core, PoolId, Span, Time, WorkerId};

/// A boot that takes longer than this no longer keeps other pools waiting.
const LONG_BOOT: Span = Span::from_secs(5);

impl Core {
    pub(crate) fn begin_boot(&mut self, worker: WorkerId, pool: PoolId) {
        let since = self.now;
        self.boots.running.push(Boot {
            worker,
            pool,
            since,
        });
        // The next worker of this pool starts after the workers of pools that are waiting already.
        self.note_waiting_for_boot(pool, false);
    }

    /// Whether a pool may start a worker now. If several pools want to, they take turns.
    pub(crate) fn may_boot(&self, pool: PoolId) -> bool {
        let waiting = &self.boots.waiting;
        let mut earlier = waiting.iter().take_while(|other| **other != pool);
        let goes_first = |other: &PoolId| {
            self.fails(*other) == self.fails(pool) && self.has_room_to_boot(*other)
        };
        self.has_room_to_boot(pool) && !earlier.any(goes_first)
    }

    /// Records whether a pool waits until it may start a worker. If it no longer does, others may be next.
    pub(crate) fn note_waiting_for_boot(&mut self, pool: PoolId, waits: bool) {
        let waited = self.boots.has_waiting(pool);
        if waits && !waited {
            self.boots.waiting.push(pool);
        } else if waited && !waits {
            self.boots.waiting.retain(|other| *other != pool);
            for other in self.boots.waiting.clone() {
                self.request_resize(other);
            }
        }
    }

    /// When the next of the boots that this pool waits for becomes a long boot ([`LONG_BOOT`]), so that it no longer counts.
    pub(crate) fn next_long_boot(&self, pool: PoolId) -> Time {
        if !self.boots.has_waiting(pool) {
            return Time::NEVER;
        }
        let boots = self.boots.running.iter().filter(|boot| boot.pool != pool);
        let ends = boots.map(|boot| boot.since + LONG_BOOT);
        ends.filter(|end| *end > self.now)
            .min()
            .unwrap_or(Time::NEVER)
    }

    /// The number of workers that have to boot before a pool may start another one. Pools whose last boot failed wait
    /// only for each other, and no other pool waits for them.
    fn boots_beside(&self, pool: PoolId) -> usize {
        let running = self.boots.running.iter();
        let counts = |boot: &&Boot| {
            let is_long = self.now.since(boot.since) >= LONG_BOOT;
            boot.pool == pool || (!is_long && self.fails(boot.pool) == self.fails(pool))
        };
        running.filter(counts).count()
    }

    fn has_room_to_boot(&self, pool: PoolId) -> bool {
        self.boots_beside(pool) < self.limits.boots_at_once as usize
    }

    fn fails(&self, pool: PoolId) -> bool {
        self.pools[pool.index()].failed_boots > 0
    }
}
